package meter

// told are the numbers of an answer, by what they mean. Those of a stream are told again and
// again, each time for the whole answer so far, so that the highest counts.
type told struct {
	model  string
	final  bool // the number of tokens that came out is that of the whole answer
	in     int64
	prompt int64 // in, with what was in the cache
	cached int64 // of prompt
	tools  int64 // in, beside prompt
	out    int64
	think  int64 // out, beside out

	read, write, writeHour int64 // of a cache, beside in
}

// set takes the number at a path (see jsonScan.path). The names are those of
// Anthropic's Messages, OpenAI's Responses and Chat Completions, DeepSeek's, and Gemini's
// GenerateContentResponse.
func (t *told) set(wrapper, path string, n int64) {
	field := &t.in
	switch path {
	case "usage.input_tokens":
	case "usage.cache_read_input_tokens":
		field = &t.read
	case "usage.cache_creation_input_tokens":
		field = &t.write
	case "usage.cache_creation.ephemeral_1h_input_tokens":
		field = &t.writeHour
	case "usage.prompt_tokens", "usageMetadata.promptTokenCount":
		field = &t.prompt
	case "usage.input_tokens_details.cached_tokens", "usage.prompt_tokens_details.cached_tokens",
		"usage.prompt_cache_hit_tokens", "usageMetadata.cachedContentTokenCount":
		field = &t.cached
	case "usageMetadata.toolUsePromptTokenCount":
		field = &t.tools
	case "usage.output_tokens", "usage.completion_tokens", "usageMetadata.candidatesTokenCount":
		field = &t.out
		t.final = t.final || wrapper != "message" // Anthropic's first event tells only the beginning
	case "usageMetadata.thoughtsTokenCount":
		field = &t.think
	default:
		return
	}
	*field = max(*field, n)
}

// usage is what the answer has told so far.
func (s *scanner) usage() Usage {
	t := s.told
	return Usage{
		Model:          t.model,
		In:             max(t.in+t.prompt-t.cached, 0) + t.tools,
		Out:            t.out + t.think,
		CacheRead:      t.read + min(t.cached, t.in+t.prompt),
		CacheWrite:     max(t.write, t.writeHour),
		CacheWriteHour: t.writeHour,
	}
}
