package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"forage"
	"forage/internal/config"
	"forage/internal/egressconfig"
	"forage/internal/inject"
	"forage/internal/policy"
)

// Explained is what would become of a request from a sandbox.
type Explained struct {
	policy.Explanation
	// Intercepted says that TLS to its host is ended by us, to look into requests.
	Intercepted bool
	// Secret is the name of the secret that would be put in; "" is none.
	Secret string
	// OfProject are the rules and allowed hosts, as decisions name them, that are in force
	// since the project's file says so.
	OfProject []string
}

// Explain says what would become of a request from a sandbox made from a
// template, whose workspace is a project's folder if project is not "". The URL is taken
// as it is written; with the method CONNECT it is host:port. Beside the
// tools that know the hosts of sets nothing is asked of anybody, and no secret is read.
func (h *Host) Explain(template, method, url, project string) (Explained, error) {
	r, secure, err := parseAsked(method, url)
	if err != nil {
		return Explained{}, forage.Errorf(forage.ErrUsage, "%w", err)
	}
	chosen, err := h.tightened(template, project)
	if err != nil {
		return Explained{}, err
	}
	bindings, err := h.bindings(chosen)
	if err != nil {
		return Explained{}, err
	}
	chosen.Network.Allow = h.narrowed(chosen.Name, chosen.Network.Allow, bindings, nil)
	if _, err := h.findSets(context.Background(), &chosen.Network, nil); err != nil {
		return Explained{}, err
	}
	rules, err := policy.Compile(chosen.Network)
	if err != nil {
		return Explained{}, forage.Errorf(forage.ErrUsage, "%w", err)
	}
	_, r.Pinned = h.Config.Network.Resolve[r.Authority()]
	e := Explained{Explanation: policy.Explain(rules, r), OfProject: h.ofProject(template, chosen.Network)}
	if !secure && r.Host != policy.HostName { // a secret doesn't go out in the clear
		return e, nil
	}
	var inside bool
	e.Secret, inside, err = egressconfig.Foresee(r, e.Connection, bindings, chosen.Traffic)
	e.Intercepted = inside && secure && e.Connection.Verdict == policy.Allow
	if e.Verdict == policy.Allow && e.Intercepted && r.Method == "" {
		e.Explanation = h.onlyHTTP(e.Explanation, r, chosen, bindings)
	}
	if e.Verdict != policy.Allow {
		e.Secret = ""
	}
	return e, err
}

// onlyHTTP denies what is not HTTP where requests are looked into. It can be allowed
// with its port, unless a secret or a budget is what is looked for.
func (h *Host) onlyHTTP(e policy.Explanation, r policy.Request, chosen forage.Template, bindings []forage.Binding) policy.Explanation {
	e.Verdict, e.Rule, e.Changes = policy.Deny, "not-http", nil
	e.Reason = "only HTTP passes at " + r.Authority() + ", where requests are looked into"
	network := chosen.Network
	network.Allow = append(slices.Clone(network.Allow), r.Authority())
	rules, err := policy.Compile(network)
	if err != nil {
		return e
	}
	_, inside, err := egressconfig.Foresee(r, policy.Decide(rules, r), bindings, chosen.Traffic)
	if err == nil && !inside {
		e.Changes = []policy.Change{{Allow: r.Authority()}}
	}
	return e
}

// ofProject are the rules and hosts of a template's network, tightened, that are the project'h.
func (h *Host) ofProject(template string, tightened forage.Network) []string {
	own := h.Config.Templates[template].Network
	var texts []string
	for _, rule := range tightened.Rules[len(own.Rules):] { // Tighten appends them
		texts = append(texts, policy.RuleText(rule))
	}
	if !slices.Equal(own.Allow, tightened.Allow) {
		texts = append(texts, tightened.Allow...)
	}
	return texts
}

// tightened is a template with what the file of a project takes away.
func (h *Host) tightened(name, project string) (forage.Template, error) {
	template, err := h.template(name)
	if err != nil || project == "" {
		return template, err
	}
	folder, err := h.Caller.Abs(project)
	if err != nil {
		return template, err
	}
	file, err := config.LoadProject(folder)
	if err != nil {
		return template, err
	}
	return config.Tighten(template, file)
}

// bindings are the secrets that sandboxes of a template have put into their requests.
func (h *Host) bindings(template forage.Template) ([]forage.Binding, error) {
	if template.SecretMode == forage.SecretsWrapped {
		return nil, nil
	}
	p := &planner{host: h, chosen: template}
	var bindings []forage.Binding
	for _, name := range p.secretNames() {
		secret, found, err := p.secret(name)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		binding, err := inject.Binding(name, secret, inject.Scope{Home: h.Caller.Home, Set: h.setHosts(context.Background(), nil)})
		if err != nil {
			return nil, err
		}
		bindings = append(bindings, binding)
	}
	return bindings, nil
}

// parseAsked reads a request as a user writes it. The path is kept as it is: reading it is what is
// to be explained. secure says that it goes over TLS.
func parseAsked(method, text string) (r policy.Request, secure bool, err error) {
	if method == "" || strings.ContainsFunc(method, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return r, false, fmt.Errorf("%.40q: expected a method, such as GET", method)
	}
	if method == "CONNECT" {
		r, err = policy.ParseAuthority(text, 0)
		return r, true, err
	}
	scheme, rest, ok := strings.Cut(text, "://")
	port := map[string]uint16{"https": 443, "wss": 443, "http": 80, "ws": 80}[strings.ToLower(scheme)]
	if !ok || port == 0 {
		return r, false, fmt.Errorf("%.80q: expected a URL, such as https://example.com/path", text)
	}
	rest, _, _ = strings.Cut(rest, "#") // which no client sends
	authority, path := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if strings.Contains(authority, "@") {
		return r, false, errors.New("expected a URL without a user: what would be sent is not known")
	}
	r, err = policy.ParseAuthority(authority, port)
	r.Method = method
	if r.Path, r.Query, _ = strings.Cut(path, "?"); r.Path == "" {
		r.Path = "/"
	}
	return r, port == 443, err
}
