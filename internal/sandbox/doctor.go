package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage/internal/hostexec"
	"forage/internal/runtime"
	"forage/internal/supervisor"
)

// Report is what doctor found about one thing that Forage relies on, or one runtime.
type Report struct {
	About    string            `json:"about"` // "host", or a runtime's name
	Findings []runtime.Finding `json:"findings"`
	// Spare is a runtime that is used only when it is asked for: nothing else needs it to work.
	Spare bool `json:"spare,omitempty"`
}

// Works says whether everything that is required works.
func (r Report) Works() bool {
	return !slices.ContainsFunc(r.Findings, func(f runtime.Finding) bool { return f.Required && !f.OK })
}

// Doctor tries everything that Forage relies on.
func (s *Service) Doctor(ctx context.Context) ([]Report, error) {
	reports := []Report{{About: "host", Findings: []runtime.Finding{
		s.tryCommand(ctx, "tmux", "-V", "sessions of `up` need it; `run` does not"),
		s.tryCommand(ctx, "git", "--version", "agents use it, and workspaces of git repositories need it"),
		s.tryCommand(ctx, "jj", "--version", "--repo and workspaces of jj repositories need it"),
		s.tryFolder("state folder", s.Host.Places.State),
		s.tryFolder("run-time folder", s.Host.Places.Runtime),
		s.tryLogout(),
		s.upstreamProxy(),
	}}, {About: "tools", Findings: s.Host.Tools()}}
	chosen, passed := s.Host.Runtimes.Choose(supervisor.ThisHost(), s.Host.Config.Forbid.CheckRuntime)
	reports = append(reports, Report{About: "choice", Findings: append(passed, runtime.Finding{Name: chosen, OK: true, Detail: "used where no runtime is named"})})
	for _, name := range s.Host.Runtimes.Names() {
		rt, err := s.Host.Runtimes.New(name)
		if err != nil {
			return nil, err
		}
		reports = append(reports, Report{About: name, Findings: rt.Check(ctx), Spare: name != chosen})
	}
	return reports, nil
}

func (s *Service) tryCommand(ctx context.Context, name, flag, why string) runtime.Finding {
	finding := runtime.Finding{Name: name}
	output, err := hostexec.Run(ctx, hostexec.Command{Argv: []string{name, flag}})
	if err != nil {
		finding.Detail, finding.Fix = why, "install "+name+" with the system's package manager"
		return finding
	}
	finding.OK, finding.Detail = true, strings.TrimSpace(string(output.Stdout))
	return finding
}

// tryFolder writes a file in a folder of ours.
func (s *Service) tryFolder(name, path string) runtime.Finding {
	finding := runtime.Finding{Name: name, Required: true, Detail: path}
	err := os.MkdirAll(path, 0o700)
	if err == nil {
		var file *os.File
		if file, err = os.CreateTemp(path, ".doctor"); err == nil {
			_, writeErr := file.WriteString("x")
			err = errors.Join(writeErr, file.Close(), os.Remove(file.Name()))
		}
	}
	if err != nil {
		finding.Detail, finding.Fix = err.Error(), "make "+path+" writable, or name another folder in FORAGE_STATE_DIR or FORAGE_RUNTIME_DIR"
		return finding
	}
	finding.OK = true
	return finding
}

// tryLogout says whether sandboxes outlive the caller's last session:
// systemd-logind ends the user manager, and with KillUserProcesses every
// process, of a user without lingering (loginctl(1), logind.conf(5)).
func (s *Service) tryLogout() runtime.Finding {
	finding := runtime.Finding{Name: "sandboxes outlive logging out", OK: true}
	if note := logoutNote(s.Host.Caller.UID, s.Host.Caller.User, "/"); note != "" {
		finding.OK, finding.Detail, finding.Fix = false, note, "sudo loginctl enable-linger "+s.Host.Caller.User
	}
	return finding
}

// logoutNote says what logging out does to sandboxes on a host whose files
// are below root; "" is nothing.
func logoutNote(uid int, user, root string) string {
	if uid == 0 {
		return ""
	}
	if _, err := os.Stat(filepath.Join(root, "run/systemd/system")); err != nil {
		return "" // another init: nothing ends a session's processes
	}
	if _, err := os.Stat(filepath.Join(root, "var/lib/systemd/linger", user)); err == nil {
		return ""
	}
	return fmt.Sprintf("logging out can end the sandboxes of %s, who has no lingering", user)
}

func (s *Service) upstreamProxy() runtime.Finding {
	finding := runtime.Finding{Name: "addresses are checked before dialling", OK: true}
	if s.Host.Config.Network.UpstreamProxy != "" {
		finding.OK = false
		finding.Detail = "names are sent to network.upstreamProxy, which resolves them: that it refuses private addresses is up to the proxy"
	}
	return finding
}
