package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"forage"
	"forage/internal/term"
)

// flagError turns what the flag library complains about into a usage error
// that names the nearest flag.
func flagError(c *cobra.Command, err error) error {
	if wrong, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usageError(c, "--%s %q: %s", wrong.GetFlag().Name, wrong.GetValue(), mustBe(wrong))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usageError(c, "%w", err)
	}
	hint := "'" + c.CommandPath() + " --help' lists the flags"
	if answer := otherFlags()[unknown.GetSpecifiedName()]; answer != "" {
		hint = answer
	} else if near := term.Nearest(unknown.GetSpecifiedName(), flagNames(c)); near != "" && unknown.GetSpecifiedShortnames() == "" {
		hint = "did you mean --" + near + "?"
	} else if strings.Contains(c.Use, "-- ") {
		hint = "flags of the command that runs inside come after '--'"
	}
	return forage.WithHint(forage.Errorf(forage.ErrUsage, "%s%w", errorPrefix(c), err), hint)
}

// mustBe says what the value of a flag has to be: what the parsers of Go say is about Go.
func mustBe(wrong *pflag.InvalidValueError) string {
	switch wrong.GetFlag().Value.Type() {
	case "duration":
		return "must be a duration, such as 90s, 5m or 2h"
	case "int", "int64", "uint", "uint64", "count":
		return "must be a whole number"
	case "bool":
		return "must be true or false"
	}
	return wrong.Unwrap().Error()
}

// flagNames are the flags that c takes and shows.
func flagNames(c *cobra.Command) []string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// notEmpty refuses flags without a value, such as --to "$UNSET": without the flag the command does
// something else.
func notEmpty(c *cobra.Command, names ...string) error {
	for _, name := range names {
		if flag := c.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
			return usageError(c, "--%s: it is empty", name)
		}
	}
	return nil
}

// choice is the value of a flag that takes one of a few words.
type choice struct {
	value *string
	words []string
}

func (c choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

func (c choice) Type() string { return strings.Join(c.words, "|") }

func (c choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("must be %s", strings.Join(c.words, ", "))
	}
	*c.value = word
	return nil
}
