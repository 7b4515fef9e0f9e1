"""Files of rounds: what they contain, read and written line by line or part by part, without HTTP."""
