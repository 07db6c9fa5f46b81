package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"forage"
	"forage/internal/audit"
	"forage/internal/config"
	"forage/internal/egress"
	"forage/internal/egress/credential"
	"forage/internal/egress/meter"
	"forage/internal/egress/tlsmitm"
	"forage/internal/egressconfig"
	"forage/internal/hostset"
	"forage/internal/inject"
	"forage/internal/policy"
	"forage/internal/secrets"
)

type dialer = func(context.Context, netip.AddrPort) (net.Conn, error)

// plan is what a client is to be, by the configuration. Nothing is made yet.
type plan struct {
	name     string
	client   config.ProxyClient
	engine   egress.Config
	sum      string // of all that the engine is made of: a change takes another engine
	traffic  forage.Traffic
	bindings []forage.Binding
	env      map[string]string // what the secrets' sources need of it
	inside   map[string]string // variables with placeholders, for the client's programs
}

// planClient says what the client of that name is to be.
func (s *Service) planClient(loaded *config.Config, name string) (p plan, err error) {
	p.name, p.client = name, loaded.Proxy.Clients[name]
	template := loaded.Templates[p.client.Template]
	defer func() {
		if err != nil {
			err = forage.WithHint(fmt.Errorf("proxy.clients.%s: template %s: %w", name, template.Name, err), forage.Hint(err))
		}
	}()
	if uses := loaded.Unsupported[template.Name]; len(uses) > 0 {
		return p, forage.Errorf(forage.ErrUnsupported, "%v is not supported by this version", uses[0])
	}
	if template.SecretMode == forage.SecretsWrapped {
		return p, forage.Errorf(forage.ErrUnsupported, "secretMode = %q puts secrets into a sandbox, and there is none", template.SecretMode)
	}
	if err := loaded.Forbid.CheckNetwork(template.Network.Mode); err != nil {
		return p, err
	}
	if err := findSets(loaded, &template.Network); err != nil {
		return p, err
	}
	if p.engine, err = egressconfig.Engine(name, template.Network, loaded.Network); err != nil {
		return p, err
	}
	const later = 1 // client that may be added while it runs
	p.engine.MaxConnections = egress.ConnectionsFor(len(loaded.Proxy.Clients)+later, maxPending)
	p.traffic = template.Traffic
	if p.bindings, err = s.bindings(loaded, template, name); err != nil {
		return p, err
	}
	if p.inside, err = placeholders(loaded, template, p.bindings); err != nil {
		return p, err
	}
	p.env = map[string]string{}
	for _, b := range p.bindings {
		s.takeEnv(p.env, b.Source)
	}
	p.sum, err = p.sumOf(template.Network, loaded.Network)
	return p, err
}

// sumOf tells apart what engines are made of, the content of files included.
func (p plan) sumOf(network forage.Network, facts forage.NetworkFacts) (string, error) {
	hash := sha256.New()
	err := json.NewEncoder(hash).Encode([]any{network, network.Sets, facts, p.bindings, p.env})
	for _, file := range append(p.secretFiles(), facts.UpstreamCA) {
		content, _ := os.ReadFile(file) // what can't be read is told when it is needed
		fmt.Fprintf(hash, "%q", content)
	}
	return hex.EncodeToString(hash.Sum(nil)), err
}

// findSets finds the hosts of the sets that a template names. The tools of the service's own user
// are not asked for a registry: it serves others.
func findSets(loaded *config.Config, network *forage.Network) error {
	network.Sets = map[string][]string{}
	for _, name := range policy.UnknownSets(*network) {
		set, err := hostset.Find(context.Background(), name[1:], loaded.HostSets, hostset.Caller{})
		if err != nil {
			return err
		}
		network.Sets[name] = set.Hosts
	}
	return nil
}

// bindings are those of the template's secrets that are configured. Unlike a sandbox's, a client's
// are not looked for in the environment and the logins of the service's own user.
func (s *Service) bindings(loaded *config.Config, template forage.Template, name string) ([]forage.Binding, error) {
	wanted := slices.Clone(template.Secrets)
	for _, agent := range template.Agents {
		if _, ok := loaded.Secrets[agent.Secret]; ok {
			wanted = append(wanted, agent.Secret)
		} else if agent.Secret != "" {
			s.log.Warn("an agent's secret is not configured, and not put in", "client", name, "secret", agent.Secret)
		}
	}
	slices.Sort(wanted)
	var all []forage.Binding
	for _, secret := range slices.Compact(wanted) {
		configured, ok := loaded.Secrets[secret]
		if !ok {
			return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "the secret %s is not configured", secret),
				"add [secrets."+secret+"]: the proxy looks for none by itself")
		}
		b, err := inject.Binding(secret, configured, inject.Scope{Sandbox: name, Home: s.options.Home})
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	return all, nil
}

// placeholders are the variables that make a client's programs use its
// secrets. The gateway is for sandboxes alone, since programs that take one prove nothing to it.
func placeholders(loaded *config.Config, template forage.Template, bindings []forage.Binding) (map[string]string, error) {
	var agents []forage.Agent
	for _, name := range slices.Sorted(maps.Keys(template.Agents)) {
		agent := template.Agents[name]
		agent.BaseURLEnvVar = ""
		agents = append(agents, agent)
	}
	var parts []inject.Contribution
	for _, b := range bindings {
		service := inject.ServiceOf(b.Secret, loaded.Secrets[b.Secret])
		part, err := inject.Placeholders(b, service, agents)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	all, err := inject.Merge(parts...)
	return all.Env, err
}

// takeEnv adds to env what a source needs of the service's environment.
func (s *Service) takeEnv(env map[string]string, source forage.SecretSource) {
	for _, name := range secrets.Wanted(source) {
		if value, ok := s.options.Getenv(name); ok {
			env[name] = value
		}
	}
}

// client is one whom the service serves.
type client struct {
	life      context.Context
	end       context.CancelFunc // of life
	plan      plan
	log       *audit.Log
	authority *tlsmitm.Authority
	account   *meter.Account
	ledger    *meter.Ledger
	engine    *egress.Engine
}

// newClient makes what a client needs and does not serve it yet.
func (s *Service) newClient(p plan) (_ *client, err error) {
	c := &client{plan: p}
	c.life, c.end = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.log, err = audit.Open(filepath.Join(s.dir, p.name+".audit.jsonl"), p.name); err != nil {
		return nil, err
	}
	ledger := filepath.Join(s.dir, p.name+".traffic.json")
	c.account, c.ledger, err = egressconfig.OpenAccount(p.traffic, ledger, func(err error) { s.log.Error("counting", "client", p.name, "error", err) })
	if err != nil {
		return nil, err
	}
	if c.authority, err = tlsmitm.New(p.name); err != nil {
		return nil, err
	}
	if c.engine, err = s.newEngine(c, p); err != nil {
		return nil, err
	}
	return c, nil
}

// newEngine makes an engine for a client. What it puts into requests ends with the client.
func (s *Service) newEngine(c *client, p plan) (*egress.Engine, error) {
	made := p.engine
	made.Audit, made.Authority, made.Account, made.Dial = c.log, c.authority, c.account, s.options.dial
	engine, err := egress.New(made)
	if err != nil {
		return nil, err
	}
	sources, err := egressconfig.Sources(c.life, p.bindings, p.env, engine.HostTransport, c.secretFailed)
	if err == nil {
		var set *credential.Set
		if set, err = credential.Compile(p.bindings, sources); err == nil {
			engine.SetCredentials(set)
			return engine, nil
		}
	}
	return nil, errors.Join(err, engine.Close())
}

// secretFailed puts on record what is wrong with a secret; the client is not told.
func (c *client) secretFailed(secret string, err error) {
	_ = c.log.Record(egressconfig.SourceFailed(secret, err)) // the request is refused all the same
}

// publish writes a client's authority to where it is expected.
func publish(p plan, authority *tlsmitm.Authority) error {
	if p.client.CAFile == "" {
		return nil
	}
	if err := renameio.WriteFile(p.client.CAFile, authority.PEM(), 0o644, renameio.WithTempDir(filepath.Dir(p.client.CAFile)), renameio.WithStaticPermissions(0o644)); err != nil {
		return fmt.Errorf("proxy.clients.%s.caFile: %w", p.name, err)
	}
	return nil
}

// close resets the client's connections and takes everything back.
func (c *client) close() error {
	c.end()
	var errs []error
	if c.engine != nil {
		errs = append(errs, c.engine.Close())
	}
	if c.ledger != nil {
		errs = append(errs, c.ledger.Close())
	}
	if c.log != nil {
		errs = append(errs, c.log.Close())
	}
	return errors.Join(errs...)
}

// filesOf are the files that a plan depends on beside the configuration.
func (p plan) filesOf() []string {
	files := p.secretFiles()
	if p.client.Token != nil && p.client.Token.File != "" {
		files = append(files, p.client.Token.File)
	}
	return files
}

func (p plan) secretFiles() (files []string) {
	for _, b := range p.bindings {
		if b.Source.File != "" {
			files = append(files, b.Source.File)
		}
	}
	return files
}

// names are the clients that there are, sorted.
func (s *Service) names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.clients))
}
