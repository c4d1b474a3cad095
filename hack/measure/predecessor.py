"""What the program that schedpatch replaces needed: recorded figures, see docs/develop/performance.md for how they came about."""

WHENCE = "the predecessor's figures are recorded ones: csi-baremetal's Python patcher, polling every 60 s"
PSS_MB = 54.9
ANONYMOUS_MB = 47.8
CALLS_PER_MINUTE = 109
CPU_MS_PER_MINUTE = 7.0
DISK_MB = 67.7
SWAP_MS = 29_700
