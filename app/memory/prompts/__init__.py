"""What leads an agent through dreams, captures and questions: one Markdown file each, and the loader."""
