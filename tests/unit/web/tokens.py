"""The tokens and the address of the test server."""

OPERATOR, READER = "operator-0123456789abcdef", "reader-0123456789abcdefgh"
HERE = "http://127.0.0.1:8700"
