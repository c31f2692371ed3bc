"""How texts are cut: units of a text (words, sentences, paragraphs, sections), and packing them into chunks."""
