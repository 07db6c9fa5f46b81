package supervisor

import (
	"context"
	"os"
	"strings"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/egress"
	"forage/internal/egress/credential"
	"forage/internal/egress/meter"
	"forage/internal/egress/tlsmitm"
	"forage/internal/egressconfig"
	"forage/internal/rootfs"
)

// Intercepts says whether a sandbox of that plan trusts an authority of its own, so that its TLS
// can be looked into.
func Intercepts(plan forage.Plan) bool {
	return egressconfig.Intercepts(plan.Network, injected(plan), plan.Traffic)
}

// injected are the plan's secrets that egress puts into requests.
func injected(plan forage.Plan) []forage.Binding {
	if plan.SecretMode == forage.SecretsWrapped {
		return nil
	}
	return plan.Secrets
}

// CheckSecrets says whether the plan's secrets can be bound together.
func CheckSecrets(plan forage.Plan) error { return egressconfig.CheckSecrets(injected(plan)) }

// SecretEnv are the variables of the caller's environment that the plan's secrets are read
// with; they go into Setup.SecretEnv.
func SecretEnv(plan forage.Plan) []string { return egressconfig.EnvWanted(plan.Secrets) }

// makeEgress makes the engine, which serves nothing yet.
func (s *Sandbox) makeEgress(context.Context) error {
	plan := s.setup.Plan
	config, err := egressconfig.Engine(plan.Name, s.network, plan.Facts)
	if err != nil {
		return err
	}
	config.Audit, config.Open = s.audit, s.askToOpen
	config.WayOut = func(way egress.Way) string {
		words := []string{"forage-ctl", "network", plan.Name}
		if plan.Ephemeral {
			words = []string{"forage-ctl", "run"}
			if way.Mode != "" {
				words = append(words, "--network")
			}
		}
		if way.Mode != "" {
			words = append(words, string(way.Mode))
		}
		return strings.Join(append(words, "--allow", way.Allow), " ")
	}
	if Intercepts(plan) {
		if config.Authority, err = tlsmitm.New(plan.Name); err != nil {
			return err
		}
		s.authority = config.Authority
	}
	if config.Account, err = s.openAccount(); err != nil {
		return err
	}
	if s.engine, err = egress.New(config); err != nil {
		return err
	}
	s.undo.add("egress", s.engine.Close)
	return nil
}

// openAccount goes on counting where the sandbox's last start left off.
func (s *Sandbox) openAccount() (_ *meter.Account, err error) {
	if s.setup.UsagePath == "" {
		s.account = meter.NewAccount(s.setup.Plan.Traffic, meter.Totals{}, time.Now)
		return s.account, nil
	}
	var ledger *meter.Ledger
	s.account, ledger, err = egressconfig.OpenAccount(s.setup.Plan.Traffic, s.setup.UsagePath, func(err error) {
		s.Record(audit.Event{Kind: audit.Lifecycle, Reason: "keeping what was used: " + err.Error()})
	})
	if err != nil {
		return nil, err
	}
	s.undo.add("the count of what is used", ledger.Close)
	return s.account, nil
}

// prepareSecrets opens the sources of the secrets and hands them to egress, or, with wrappers,
// their values to the sandbox.
func (s *Sandbox) prepareSecrets(ctx context.Context) error {
	plan := s.setup.Plan
	if len(plan.Secrets) == 0 {
		return nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx)) // ctx is that of the start
	s.undo.add("the sources of secrets", func() error { end(); return nil })
	failed := func(secret string, err error) { s.Record(egressconfig.SourceFailed(secret, err)) } // the sandbox is not told
	sources, err := egressconfig.Sources(life, plan.Secrets, s.setup.SecretEnv, s.engine.HostTransport, failed)
	if err != nil {
		return err
	}
	if plan.SecretMode == forage.SecretsWrapped {
		return s.wrapSecrets(ctx, sources)
	}
	set, err := credential.Compile(plan.Secrets, sources)
	if err != nil {
		return err
	}
	s.engine.SetCredentials(set)
	return s.placeLogins()
}

// prepareTrust makes what runs inside trust the sandbox's own authority, and upstreamCA.
func (s *Sandbox) prepareTrust(context.Context) error {
	plan := &s.setup.Plan
	var extra []byte
	if path := plan.Facts.UpstreamCA; path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return forage.Errorf(forage.ErrUsage, "reading network.upstreamCA: %w", err)
		}
		extra = append(text, '\n')
	}
	if s.authority != nil {
		extra = append(extra, s.authority.PEM()...)
	}
	if extra == nil {
		return nil
	}
	host := os.DirFS("/")
	root := host
	if lower := plan.Spec.Rootfs.Lower; len(lower) > 0 {
		root = os.DirFS(lower[0])
	}
	files, err := rootfs.TrustFiles(root, host, extra)
	if err != nil {
		return err
	}
	s.addFiles(files...)
	return nil
}
