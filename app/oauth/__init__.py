"""The authorization server: one module per RFC or specification.

``clients/`` says how a program is known and proves itself, ``login/`` how a person signs in; what is left here are the
endpoints, consent, and the keys.
"""
