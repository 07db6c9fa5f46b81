package seccomp

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_AARCH64

// This architecture has no older forms of calls.
func legacy() []uint32                         { return nil }
func legacyRefused() []uint32                  { return nil }
func (b *builder) legacyRules() map[uint32]int { return nil }
