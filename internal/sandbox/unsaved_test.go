package sandbox

import ()
