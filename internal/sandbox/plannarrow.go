package sandbox

import (
	"slices"

	"forage"
	"forage/internal/config"
	"forage/internal/provider"
)

// narrowed is allow without the hosts that a built-in template allows for another way to log in
// to a service than the one that is bound: nothing would keep an agent from using an
// account of its own there. What a file says, or keep, stays.
func (s *Service) narrowed(template string, allow []string, bindings []forage.Binding, keep []string) []string {
	builtin := config.BuiltinHosts(template)
	if !slices.Equal(s.Config.Templates[template].Network.Allow, builtin) {
		return allow
	}
	var needless []string
	for _, b := range bindings {
		service, _ := provider.Lookup(b.Secret)
		bound := hostsOf(b.Uses)
		for _, host := range hostsOf(slices.Concat(service.Uses, service.LoginUses)) {
			if slices.Contains(builtin, host) && !slices.Contains(bound, host) && !slices.Contains(keep, host) {
				needless = append(needless, host)
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(allow), func(host string) bool { return slices.Contains(needless, host) })
}

func hostsOf(uses []forage.SecretUse) []string {
	var hosts []string
	for _, use := range uses {
		hosts = append(hosts, use.Hosts...)
	}
	return hosts
}
