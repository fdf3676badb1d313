"""`remem demo`: a conversation's memories, and what is shown of them."""
