package seccomp

func legacyAbsent() []uint32 { return nil }
