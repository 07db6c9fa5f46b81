package review

import "testing"

// A file that only an ignore rule of the agent's hides is work like any other.
func TestApplyOfAFileThatANewRuleIgnores(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]func(b *box){
		"not committed": func(b *box) {},
		"committed":     func(b *box) { b.work.Git("add", ".gitignore"); b.work.Git("commit", "-q", "-m", "rule") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, map[string]string{"a": "1\n"})
			b.write(b.work.Dir, ".gitignore", "*.gen\n")
			rule(b)
			b.write(b.work.Dir, "dir/new.gen", "n\n")
			b.write(b.work.Dir, "dir/other.gen", "o\n")
			b.mustApply(Options{Paths: []string{"dir/new.gen"}})
			if got := b.user.Git("show", "main:dir/new.gen"); got != "n" {
				t.Errorf("new.gen is %q", got)
			}
			if files := b.user.Git("ls-tree", "-r", "--name-only", "main"); files != "a\ndir/new.gen" {
				t.Errorf("files: %q", files)
			}
		})
	}
}
