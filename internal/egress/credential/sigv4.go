package credential

import (
	"net/http"
	"time"
)

type signer struct{}
type scope struct{}

func newSigner(value string, now time.Time) (*signer, error)                     { return &signer{}, nil }
func (s *signer) hide() []string                                                 { return nil }
func (s *signer) sign(r *http.Request, sc scope, now time.Time) (refused string) { return "not yet" }
func readScope(r *http.Request) (scope, string)                                  { return scope{}, "" }
func (c *Credential) foreignSigner(r *http.Request) string                       { return "" }
