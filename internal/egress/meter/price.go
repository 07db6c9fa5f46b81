package meter

import (
	"math"
	"strings"
)

// price is what a million tokens cost, in US dollars.
type price struct {
	service, model   string
	in, cached, out  float64
	longIn, longOut  float64 // of requests with more than longPrompt tokens in; 0: the same
	write, writeHour float64 // into a cache; 0: the same as in
}

// longPrompt is where the prices for long prompts begin, in tokens.
const longPrompt = 200_000

func anthropic(model string, in, out float64) price {
	// Anthropic's prices of its cache are multiples of the price of a token in.
	return price{service: "anthropic", model: model, in: in, out: out, cached: in / 10, write: in * 1.25, writeHour: in * 2}
}

func (p price) long(in, out float64) price {
	p.longIn, p.longOut = in, out
	return p
}

// prices are those of the makers' public lists for paying as one goes, without
// batches and priority, as they were in March 2026. Models that are retired are left out. A model
// of a later date has the price of its name without the date (see priceFor).
var prices = []price{
	anthropic("claude-opus-4-6", 5, 25),
	anthropic("claude-opus-4-5", 5, 25),
	anthropic("claude-opus-4-1", 15, 75),
	anthropic("claude-opus-4", 15, 75),
	anthropic("claude-sonnet-4-6", 3, 15),
	anthropic("claude-sonnet-4-5", 3, 15).long(6, 22.5),
	anthropic("claude-sonnet-4", 3, 15).long(6, 22.5),
	anthropic("claude-3-7-sonnet", 3, 15),
	anthropic("claude-3-5-sonnet", 3, 15),
	anthropic("claude-haiku-4-5", 1, 5),
	anthropic("claude-3-5-haiku", 0.8, 4),
	anthropic("claude-3-opus", 15, 75),
	anthropic("claude-3-haiku", 0.25, 1.25),

	{service: "openai", model: "gpt-5-2", in: 1.75, cached: 0.175, out: 14},
	{service: "openai", model: "gpt-5-2-codex", in: 1.75, cached: 0.175, out: 14},
	{service: "openai", model: "gpt-5-2-pro", in: 21, cached: 21, out: 168},
	{service: "openai", model: "gpt-5-1", in: 1.25, cached: 0.125, out: 10},
	{service: "openai", model: "gpt-5-1-codex", in: 1.25, cached: 0.125, out: 10},
	{service: "openai", model: "gpt-5-1-codex-max", in: 1.25, cached: 0.125, out: 10},
	{service: "openai", model: "gpt-5-1-codex-mini", in: 0.25, cached: 0.025, out: 2},
	{service: "openai", model: "gpt-5", in: 1.25, cached: 0.125, out: 10},
	{service: "openai", model: "gpt-5-codex", in: 1.25, cached: 0.125, out: 10},
	{service: "openai", model: "gpt-5-mini", in: 0.25, cached: 0.025, out: 2},
	{service: "openai", model: "gpt-5-nano", in: 0.05, cached: 0.005, out: 0.4},
	{service: "openai", model: "gpt-5-pro", in: 15, cached: 15, out: 120},
	{service: "openai", model: "gpt-4-1", in: 2, cached: 0.5, out: 8},
	{service: "openai", model: "gpt-4-1-mini", in: 0.4, cached: 0.1, out: 1.6},
	{service: "openai", model: "gpt-4-1-nano", in: 0.1, cached: 0.025, out: 0.4},
	{service: "openai", model: "gpt-4o", in: 2.5, cached: 1.25, out: 10},
	{service: "openai", model: "gpt-4o-mini", in: 0.15, cached: 0.075, out: 0.6},
	{service: "openai", model: "gpt-4-turbo", in: 10, cached: 10, out: 30},
	{service: "openai", model: "gpt-4", in: 30, cached: 30, out: 60},
	{service: "openai", model: "o1", in: 15, cached: 7.5, out: 60},
	{service: "openai", model: "o3", in: 2, cached: 0.5, out: 8},
	{service: "openai", model: "o3-pro", in: 20, cached: 20, out: 80},
	{service: "openai", model: "o3-mini", in: 1.1, cached: 0.55, out: 4.4},
	{service: "openai", model: "o4-mini", in: 1.1, cached: 0.275, out: 4.4},
	{service: "openai", model: "codex-mini", in: 1.5, cached: 0.375, out: 6},
	{service: "openai", model: "text-embedding-3-small", in: 0.02, cached: 0.02},
	{service: "openai", model: "text-embedding-3-large", in: 0.13, cached: 0.13},

	{service: "gemini", model: "gemini-3-1-pro", in: 2, cached: 0.2, out: 12, longIn: 4, longOut: 18},
	{service: "gemini", model: "gemini-3-pro", in: 2, cached: 0.2, out: 12, longIn: 4, longOut: 18},
	{service: "gemini", model: "gemini-3-flash", in: 0.5, cached: 0.05, out: 3},
	{service: "gemini", model: "gemini-2-5-pro", in: 1.25, cached: 0.125, out: 10, longIn: 2.5, longOut: 15},
	{service: "gemini", model: "gemini-2-5-flash", in: 0.3, cached: 0.03, out: 2.5},
	{service: "gemini", model: "gemini-2-5-flash-lite", in: 0.1, cached: 0.01, out: 0.4},
	{service: "gemini", model: "gemini-2-0-flash", in: 0.1, cached: 0.025, out: 0.4},
	{service: "gemini", model: "gemini-2-0-flash-lite", in: 0.075, cached: 0.075, out: 0.3},
}

// priceOf is what u costs.
func priceOf(u Usage) float64 {
	p := priceFor(serviceOf(u.Host), u.Model)
	in, out, cached := p.in, p.out, p.cached
	if p.longIn > 0 && add(add(u.In, u.CacheRead), u.CacheWrite) > longPrompt {
		in, out, cached = p.longIn, p.longOut, p.cached*p.longIn/p.in
	}
	write, hour := p.write, p.writeHour
	if write == 0 {
		write, hour = in, in
	}
	long := min(u.CacheWriteHour, u.CacheWrite)
	return (float64(u.In)*in + float64(u.Out)*out + float64(u.CacheRead)*cached +
		float64(u.CacheWrite-long)*write + float64(long)*hour) / 1e6
}

// priceFor finds the price of a model by the name that the service gives it. One
// that is not known costs what the dearest of the service does, so that no name
// makes a budget last longer.
func priceFor(service, model string) price {
	model = plainModel(model)
	for _, p := range prices {
		if rest, ok := strings.CutPrefix(model, p.model); ok && version(rest) {
			return p
		}
	}
	return dearest(service)
}

// plainModel is a model's name without its maker ("anthropic/"), in the way it
// is written in prices.
func plainModel(model string) string {
	model = strings.ToLower(model)
	model = model[strings.LastIndexByte(model, '/')+1:]
	return strings.ReplaceAll(model, ".", "-")
}

// version says whether rest is what makers add to a model's name that has the
// same price: a date, a number of three digits or more, "latest" or "preview".
func version(rest string) bool {
	if rest == "" {
		return true
	}
	if rest[0] != '-' && rest[0] != '@' {
		return false
	}
	rest = rest[1:]
	if word, after, _ := strings.Cut(rest, "-"); word == "latest" || word == "preview" {
		return after == "" || digits(after)
	}
	return len(rest) >= 3 && digits(rest)
}

func digits(text string) bool { return strings.Trim(text, "0123456789-") == "" }

// dearest is the highest of each price of a service; of all for anyService.
func dearest(service string) price {
	var d price
	for _, p := range prices {
		if p.service != service && service != anyService && service != "" {
			continue
		}
		d.in, d.out = math.Max(d.in, math.Max(p.in, p.longIn)), math.Max(d.out, math.Max(p.out, p.longOut))
		d.cached = math.Max(d.cached, p.cached)
		d.write, d.writeHour = math.Max(d.write, math.Max(p.write, p.in)), math.Max(d.writeHour, math.Max(p.writeHour, p.in))
	}
	return d
}

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
