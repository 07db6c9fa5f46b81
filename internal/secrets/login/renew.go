package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"forage/internal/deadline"

	"forage"
)

const (
	// maxAnswer is how much of a token endpoint's answer is read, in bytes.
	maxAnswer = 1 << 20
)

// renew makes the file hold tokens that are good and not the refused one, and returns them.
func (l *Login) renew(ctx context.Context, refused string) (tokens, error) {
	have, err := l.file.read()
	if err != nil {
		return tokens{}, l.explain(err)
	}
	good := func(t tokens) bool { return t.access != refused && t.good(l.now(), early) }
	if good(have) {
		return have, nil
	}
	if have.refresh == "" {
		return tokens{}, l.explain(forage.Errorf(nil, "the login in %s has expired, and has no token to renew it with", l.file.path))
	}
	if err := l.failed(have); err != nil {
		return tokens{}, err
	}

	waiting, cancel := deadline.Within(ctx, deadline.Answer, "another process that renews it")
	defer cancel()
	release, err := hold(waiting, l.file.path, l.form.locks(filepath.Dir(l.file.path)))
	if err != nil {
		return tokens{}, l.fail(have, l.unwritable(err))
	}
	defer release()
	// The lock's last holder may have renewed it.
	have, err = l.file.read()
	if err != nil {
		return tokens{}, l.explain(err)
	}
	if good(have) {
		return have, nil
	}
	if err := l.failed(have); err != nil {
		return tokens{}, err
	}
	return l.exchange(ctx, have, good)
}

// exchange asks for new tokens and writes them to the file, which is locked.
func (l *Login) exchange(ctx context.Context, have tokens, good func(tokens) bool) (tokens, error) {
	_, raw, err := l.file.load()
	if err == nil { // tokens that could not be put into the file would be lost, and with them the login
		_, err = l.form.merge(raw, grant{Access: have.access}, l.now())
	}
	if err != nil {
		return tokens{}, l.explain(err)
	}
	next, err := l.file.replace()
	if err != nil {
		return tokens{}, l.fail(have, l.unwritable(err))
	}
	defer next.drop()
	got, err := l.request(ctx, have)

	// The agent does not always lock: what it has written meanwhile is newer than
	// what we asked with, and stays.
	if now, readErr := l.file.read(); readErr == nil && !now.same(have) {
		if good(now) {
			return now, nil
		}
		return tokens{}, l.explain(forage.Errorf(nil, "the login in %s was replaced while it was renewed, by one that has expired too", l.file.path))
	}
	if err != nil {
		return tokens{}, l.fail(have, l.expired(err))
	}
	_, raw, err = l.file.load()
	if err != nil {
		return tokens{}, l.explain(err)
	}
	merged, err := l.form.merge(raw, got, l.now())
	if err != nil {
		return tokens{}, l.explain(fmt.Errorf("the login in %s: %w", l.file.path, err))
	}
	renewed, err := l.form.parse(merged)
	if err != nil {
		return tokens{}, l.explain(fmt.Errorf("the login in %s: %w", l.file.path, err))
	}
	l.mu.Lock()
	l.renewed = l.now()
	l.mu.Unlock()
	if err := next.commit(merged); err != nil {
		l.file.keep(renewed, have)
		return tokens{}, l.explain(fmt.Errorf("the login in %s has been renewed, and could not be written: %w", l.file.path, err))
	}
	return renewed, nil
}

// request asks the token endpoint for new tokens.
func (l *Login) request(ctx context.Context, have tokens) (grant, error) {
	ask := map[string]string{"grant_type": "refresh_token", "refresh_token": have.refresh, "client_id": have.client}
	if len(have.scopes) > 0 {
		ask["scope"] = strings.Join(have.scopes, " ")
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return grant{}, err
	}
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "the token endpoint")
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.form.endpoint, bytes.NewReader(body))
	if err != nil {
		return grant{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "firefly-forage")
	// A RoundTripper follows no redirect, so that the token goes nowhere else.
	res, err := l.transport().RoundTrip(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return grant{}, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return grant{}, err
	}
	if res.StatusCode != http.StatusOK {
		return grant{}, refusalOf(res.StatusCode, answer)
	}
	var got grant
	if json.Unmarshal(answer, &got) != nil || got.Access == "" || !isToken(got.Access) || !isToken(got.Refresh) || !isToken(got.IDToken) {
		return grant{}, errors.New("the answer has no token")
	}
	return got, nil
}

// isToken says whether text may be a token, or none (RFC 6749 appendix A.12): what others print
// and send from the file has no other characters in it.
func isToken(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// refusal is a token endpoint's error answer (RFC 6749 section 5.2), of which
// nothing is kept but a code that can be no token.
type refusal struct {
	status int
	code   string // "" is none
}

func (r *refusal) Error() string {
	if r.code != "" {
		return r.code
	}
	return fmt.Sprintf("status %d", r.status)
}

// final says whether asking with the same token again is useless.
func (r *refusal) final() bool {
	switch r.code {
	case "invalid_grant", "invalid_client", "unauthorized_client", "invalid_scope",
		"refresh_token_expired", "refresh_token_reused", "refresh_token_invalidated":
		return true
	}
	return false
}

func refusalOf(status int, answer []byte) *refusal {
	var parsed struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(answer, &parsed) // what can't be read has no code
	var code string
	if json.Unmarshal(parsed.Error, &code) != nil {
		var object struct { // OpenAI's and Anthropic's own form
			Code string `json:"code"`
			Type string `json:"type"`
		}
		_ = json.Unmarshal(parsed.Error, &object)
		if code = object.Code; code == "" {
			code = object.Type
		}
	}
	if len(code) > 40 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		code = ""
	}
	return &refusal{status: status, code: code}
}

// expired is the error for the user when a login can't be renewed.
func (l *Login) expired(err error) error {
	return forage.WithHint(
		fmt.Errorf("the login in %s has expired and can't be renewed (%w): log in again on the host with `%s`", l.file.path, err, l.form.command),
		"log in again on the host with `"+l.form.command+"`")
}

// unwritable is the error for a login that is not renewed because the new tokens,
// which replace the old ones at the server, would be lost.
func (l *Login) unwritable(err error) error {
	return forage.WithHint(
		fmt.Errorf("the login in %s has expired, and is not renewed because it could not be written back: %w", l.file.path, err),
		"make the file and its folder writable, or start `"+l.form.command+"` on the host, which renews it")
}
