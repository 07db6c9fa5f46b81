package clone

// AskPatience is for tests.
var AskPatience = &askPatience
