package seccomp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// enterForeign asks for getpid through the 32-bit entry: mov $20, %eax; int $0x80; ret.
func enterForeign() {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		panic(err)
	}
	copy(page, []byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3})
	code := unsafe.Pointer(&page[0])
	function := unsafe.Pointer(&code)
	(*(*func())(unsafe.Pointer(&function)))()
}
