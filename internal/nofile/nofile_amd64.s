#include "textflag.h"

// func getrlimit(l *Limit)
TEXT ·getrlimit(SB),NOSPLIT,$0-8
	MOVQ	$7, DI	// RLIMIT_NOFILE
	MOVQ	l+0(FP), SI
	MOVQ	$97, AX	// getrlimit
	SYSCALL
	RET
