package image

import (
	"context"
	"io"
	"net/http"
	"time"

	"forage/internal/deadline"
)

// unstalled gives up a registry that sends nothing any more: a stopped or hanging one keeps its
// connections, so that nothing else ends the wait for it. What is large takes its time, but
// something of it always comes.
type unstalled struct{ next http.RoundTripper }

func (u unstalled) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	silence := time.AfterFunc(deadline.Answer, func() { cancel(deadline.Overdue{What: r.URL.Host, Limit: deadline.Answer}) })
	res, err := u.next.RoundTrip(r.WithContext(ctx))
	silence.Stop()
	if err != nil {
		if r.Context().Err() == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		cancel(nil)
		return nil, err
	}
	res.Body = &unstalledBody{res.Body, ctx, cancel, silence}
	return res, nil
}

// unstalledBody is the body of an answer, of which each part may be as late.
type unstalledBody struct {
	io.ReadCloser
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence *time.Timer
}

func (b *unstalledBody) Read(p []byte) (int, error) {
	b.silence.Reset(deadline.Answer)
	n, err := b.ReadCloser.Read(p)
	b.silence.Stop() // the reader may take longer than the registry
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

func (b *unstalledBody) Close() error {
	b.silence.Stop()
	b.cancel(nil)
	return b.ReadCloser.Close()
}
