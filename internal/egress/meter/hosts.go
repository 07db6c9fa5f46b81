package meter

import "strings"

// anyService stands for hosts that sell models of several makers, or of makers
// whose prices are not in the table.
const anyService = "any"

// hosts are those whose answers Watch understands. One that begins with "." or "-" is
// an ending.
var hosts = []struct{ host, service string }{
	{"api.anthropic.com", "anthropic"},
	{"api.openai.com", "openai"},
	{".api.openai.com", "openai"}, // regions
	{"chatgpt.com", "openai"},     // Codex with an account; a cost is what it would be with a key
	{".openai.azure.com", "openai"},
	{"generativelanguage.googleapis.com", "gemini"},
	{"cloudcode-pa.googleapis.com", "gemini"}, // Gemini's command line with an account
	{"aiplatform.googleapis.com", anyService},
	{"-aiplatform.googleapis.com", anyService}, // regions
	{".services.ai.azure.com", anyService},
	{"openrouter.ai", anyService},
	{"api.deepseek.com", anyService},
	{"api.groq.com", anyService},
	{"api.mistral.ai", anyService},
	{"api.together.xyz", anyService},
	{"api.x.ai", anyService},
}

// Metered says whether the answers of a host tell the use of a language model,
// so that a budget has to look into them.
func Metered(host string) bool { return serviceOf(host) != "" }

// serviceOf is the service that a host belongs to; "" is none.
func serviceOf(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	for _, h := range hosts {
		ending := h.host[0] == '.' || h.host[0] == '-'
		if host == h.host || ending && strings.HasSuffix(host, h.host) {
			return h.service
		}
	}
	return ""
}
