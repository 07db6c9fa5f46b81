// Functions without a body, in reenter.go, need a file in assembly beside them.
