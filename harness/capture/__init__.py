"""What a frontend puts on the wire: recorded, compared between releases, explained, kept.

``recording`` listens at the engines' sockets, ``take`` plays stories and collects, ``file`` keeps
a capture, ``compare`` holds two side by side, ``explain`` reads single messages, ``golden`` makes
vectors for tests in other languages.
"""
