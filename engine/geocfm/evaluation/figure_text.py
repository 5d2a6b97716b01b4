"""Text of the user's in a figure."""


def literal(text: str) -> str:
    """The text as it is: between two dollar signs matplotlib would read a formula."""
    return text.replace("$", r"\$")
