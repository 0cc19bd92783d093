"""How a program is known: by its document, by registration, by an operator; and how it proves itself."""
