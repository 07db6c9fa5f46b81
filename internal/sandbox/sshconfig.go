package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/sandbox/plan"
	"forage/internal/sshkeys"
	"forage/internal/store"
)

// hostAlias is the name that the sandbox's host key is known by to OpenSSH, and by which ssh-config
// names the sandbox.
func hostAlias(name string) string { return "forage-" + name }

// sshWord writes a path as ssh_config(5) has it in a list: there a space ends one, and %% is a
// percent sign.
func sshWord(path string) string {
	path = strings.ReplaceAll(path, "%", "%%")
	if strings.ContainsAny(path, " \t#") {
		return `"` + path + `"`
	}
	return path
}

// sshHost is the address of the sandboxes' ports.
func (s *Service) sshHost() string {
	if ip := net.ParseIP(s.Host.Config.SSHListen); ip != nil && !ip.IsUnspecified() {
		return s.Host.Config.SSHListen
	}
	return "127.0.0.1"
}

// SSHConfig is a configuration of OpenSSH (ssh_config(5)) with one host for each running sandbox,
// or for those named.
func (s *Service) SSHConfig(names []string) (string, error) {
	var records []store.Record
	var failed error
	if len(names) == 0 {
		records, failed = s.Host.Readable()
	}
	for _, name := range names {
		record, err := s.running(name)
		if err == nil && record.Port == 0 {
			err = forage.Errorf(forage.ErrUnsupported, "sandbox %q was made by run and has no SSH port", name)
		}
		if err != nil {
			return "", err
		}
		records = append(records, record)
	}
	var text strings.Builder
	for _, record := range records {
		if record.Port != 0 && s.Host.Alive(record.Name) {
			text.WriteString(s.sshBlock(record))
		}
	}
	return text.String(), failed
}

func (s *Service) sshBlock(record store.Record) string {
	name := hostAlias(record.Name)
	return fmt.Sprintf(`Host %s
  HostName %s
  Port %d
  User %s
  HostKeyAlias %s
  UserKnownHostsFile %s
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
  IdentityFile %s
  IdentitiesOnly yes
  IdentityAgent none
  ForwardAgent no
  ForwardX11 no
  ControlPath none
  ProxyCommand none
`, name, s.sshHost(), record.Port, forage.UserName, name,
		sshWord(s.Host.Places.Of(record.Name).KnownHosts), sshWord(filepath.Join(s.Host.Places.State, sshkeys.ClientName)))
}

// sshConfigFile is the file that the user's configuration of OpenSSH includes.
func (s *Service) sshConfigFile() string { return filepath.Join(s.Host.Places.State, "ssh_config") }

const sshConfigHead = "# forage-ctl keeps this file: it has the sandboxes that run. What is changed here is lost.\n"

// writeSSHConfig writes that file anew.
func (s *Service) writeSSHConfig() error {
	lock, err := os.OpenFile(s.sshConfigFile()+".lock", os.O_RDWR|os.O_CREATE, 0o600) // who lists last also writes last
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return err
	}
	text, err := s.SSHConfig(nil)
	return errors.Join(err, renameio.WriteFile(s.sshConfigFile(), []byte(sshConfigHead+text), 0o600))
}

// keepSSHConfig brings the file up to date, if there is one: sandboxes have come or gone.
func (s *Service) keepSSHConfig() {
	if !plan.Exists(s.sshConfigFile()) {
		return
	}
	if err := s.writeSSHConfig(); err != nil {
		s.Notify(fmt.Sprintf("the configuration for ssh could not be brought up to date: %v", err))
	}
}

// InstallSSHConfig has the user's configuration of OpenSSH include one file of ours, which is kept
// up to date from then on. It returns the user's file, and whether it was changed.
func (s *Service) InstallSSHConfig(ctx context.Context) (path string, changed bool, err error) {
	if err := os.MkdirAll(s.Host.Places.State, 0o700); err != nil {
		return "", false, err
	}
	if err := s.writeSSHConfig(); err != nil {
		return "", false, err
	}
	path = filepath.Join(s.Host.Caller.Home, ".ssh", "config")
	line := "Include " + strings.ReplaceAll(sshWord(s.sshConfigFile()), "%%", "%")
	if changed, err = includeIn(path, line); err != nil {
		err = forage.WithHint(fmt.Errorf("adding a line to %s: %w", path, err), "add it yourself, before the first Host: "+line)
	}
	return path, changed, err
}

// includeIn puts line at the beginning of a file, where it stands for all hosts, unless it is
// there. What the file was stays, its mode too, and a link goes on leading to it.
func includeIn(path, line string) (changed bool, err error) {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	mode := fs.FileMode(0o600)
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return false, err
		}
	case err != nil:
		return false, err
	default:
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		mode = info.Mode().Perm()
	}
	for has := range bytes.Lines(text) {
		if string(bytes.TrimSpace(has)) == line {
			return false, nil
		}
	}
	return true, renameio.WriteFile(path, append([]byte(line+"\n\n"), text...), mode, renameio.IgnoreUmask())
}
