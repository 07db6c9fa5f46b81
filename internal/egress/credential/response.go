package credential

import "net/http"

// Applied is what became of one request.
type Applied struct {
	Secret string // name of the secret that was put in; "" is none
	// Foreign says which credential of the agent's own was taken out ("header authorization"); "" is none.
	Foreign string

	needles *needles // nil: nothing to hide
}

// Response takes the secret out of res, as it streams: from its header, its
// body and its trailer. An error means that res must not be passed on.
func (a *Applied) Response(res *http.Response) error { return nil }

// Header takes the secret out of h, in place. It is for the headers of informational answers (1xx),
// which Response doesn't see: httptrace.ClientTrace.Got1xxResponse has them.
func (a *Applied) Header(h http.Header) {}
