package reviewscreen

import (
	"path"
	"strings"
	"unicode/utf8"

	"forage/internal/term"
)

// Colours of syntax.
const (
	plainText = ""
	comment   = term.Dim
	literal   = term.Yellow
	number    = term.Cyan
	keyword   = term.Magenta
	function  = term.Blue
)

// language is what is needed to tell comments, strings and words apart. One pass, without regular
// expressions: the text is an attacker's.
type language struct {
	line  []string    // what begins a comment to the end of the line
	long  [][2]string // what begins and ends a text of several lines
	quote string      // what is around a text within a line
	words bool        // there are keywords
}

var (
	likeC    = &language{line: []string{"//"}, long: [][2]string{{"/*", "*/"}, {"`", "`"}}, quote: `"'`, words: true}
	likeHash = &language{line: []string{"#"}, long: [][2]string{{`"""`, `"""`}, {"'''", "'''"}}, quote: "\"'`", words: true}
	likeDash = &language{line: []string{"--"}, long: [][2]string{{"/*", "*/"}, {"--[[", "]]"}, {"{-", "-}"}}, quote: `"'`, words: true}
	likeSemi = &language{line: []string{";"}, quote: `"`, words: true}
	likeXML  = &language{long: [][2]string{{"<!--", "-->"}}, quote: `"'`}
)

// languages are the extensions and names of files that have each.
var languages = map[*language]string{
	likeC:    "go mod c h cc cpp cxx hpp hh java js mjs cjs jsx ts tsx json jsonc rs cs kt kts swift scala dart zig css scss less php proto groovy gradle v sol glsl m",
	likeHash: "py pyi sh bash zsh fish rb pl pm toml yaml yml conf cfg mk cmake r nix tf hcl ex exs jl env envrc makefile dockerfile gnumakefile justfile gemfile rakefile cmakelists.txt gitignore gitattributes gitconfig editorconfig service",
	likeDash: "sql lua hs elm ada vhd vhdl",
	likeSemi: "lisp clj cljs el scm ini asm s",
	likeXML:  "xml html htm svg xhtml vue svelte md markdown plist csproj",
}

func languageOf(file string) *language {
	name := strings.ToLower(path.Base(file))
	ending := strings.TrimPrefix(path.Ext(name), ".")
	for l, list := range languages {
		for _, one := range strings.Fields(list) {
			if one == name || one == ending {
				return l
			}
		}
	}
	return nil
}

// words are keywords of the usual languages: one set serves them all.
const words = ` abstract and as async await begin bool break byte case catch chan char class const continue def default defer del delete do done double elif else elsif end
 enum esac except export extends extern extends false fi final finally float fn for foreach from fun func function go goto if impl implements import in instanceof int
 interface is lambda let local long loop map match mod module mut namespace new nil none not null or override package pass private protected pub public raise range
 record ref return select self short signed sizeof static str string struct super switch template then this throw trait true try type typedef typeof union unless unsafe
 unsigned until use using val var virtual void volatile when where while with yield insert into update table create drop values set `

var keywords = func() func(string) bool {
	var set map[string]bool
	return func(word string) bool {
		if set == nil { // not at the start of every program
			set = map[string]bool{}
			for _, w := range strings.Fields(words) {
				set[w] = true
			}
		}
		return set[word] || set[strings.ToLower(word)] && word == strings.ToUpper(word)
	}
}()

// maxColoured is up to which length a line has colours: longer ones are not made by hand.
const maxColoured = 2000

// scan goes through a line, and says of each piece what it is. within is the text of several lines
// that the line begins in, from 1; 0 is none. It returns that of the next line.
func (l *language) scan(line string, within int, piece func(style string, end int)) int {
	if l == nil || len(line) > maxColoured {
		piece(plainText, len(line))
		return within
	}
	for at := 0; at < len(line); {
		rest := line[at:]
		end, style := at+1, plainText
		switch {
		case within > 0:
			style = l.longStyle(within)
			if i := strings.Index(rest, l.long[within-1][1]); i >= 0 {
				end, within = at+i+len(l.long[within-1][1]), 0
			} else {
				end = len(line)
			}
		case l.opens(rest) > 0:
			within = l.opens(rest)
			end, style = at+len(l.long[within-1][0]), l.longStyle(within)
		case l.comments(line, at):
			end, style = len(line), comment
		case strings.IndexByte(l.quote, rest[0]) >= 0:
			if n := closing(rest); n > 0 {
				end, style = at+n, literal
			}
		case rest[0] >= utf8.RuneSelf: // whole characters
			for end < len(line) && line[end] >= utf8.RuneSelf {
				end++
			}
		case isWord(rest[0]):
			for end < len(line) && (isWord(line[end]) || isDigit(rest[0]) && line[end] == '.') {
				end++
			}
			switch {
			case isDigit(rest[0]):
				style = number
			case l.words && keywords(line[at:end]):
				style = keyword
			case end < len(line) && line[end] == '(':
				style = function
			}
		}
		piece(style, end)
		at = end
	}
	return within
}

func (l *language) longStyle(within int) string {
	if strings.Trim(l.long[within-1][1], "`\"'") == "" {
		return literal
	}
	return comment
}

func (l *language) opens(rest string) int {
	for i, pair := range l.long {
		if strings.HasPrefix(rest, pair[0]) {
			return i + 1
		}
	}
	return 0
}

// comments says whether the rest of the line is a comment. In a shell "$#" begins none.
func (l *language) comments(line string, at int) bool {
	for _, begin := range l.line {
		if strings.HasPrefix(line[at:], begin) && (begin != "#" || at == 0 || line[at-1] == ' ' || line[at-1] == '\t') {
			return true
		}
	}
	return false
}

// closing is how long a quoted text is; 0: it has no end in this line.
func closing(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 0
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z'
}
