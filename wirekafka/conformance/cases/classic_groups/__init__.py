"""Groups of the classic protocol, and the offsets that all kinds of groups commit."""
