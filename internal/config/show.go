package config

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/pelletier/go-toml/v2"
)

// JSON is the configuration in force, defaults included, as a configuration file.
func (c *Config) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(c.effective(), "", "  ")
	if err != nil {
		return nil, fmt.Errorf("showing the configuration: %w", err)
	}
	return append(data, '\n'), nil
}

// TOML is the configuration in force, defaults included, as a configuration file.
func (c *Config) TOML() ([]byte, error) {
	data, err := toml.Marshal(c.effective())
	if err != nil {
		return nil, fmt.Errorf("showing the configuration: %w", err)
	}
	return data, nil
}

// effective is the file that, alone, would make this configuration.
func (c *Config) effective() map[string]any {
	all := maps.Clone(c.said.values)
	if _, ok := all["forbid"]; ok { // of all files together
		all["forbid"] = c.Forbid.written()
	}
	return all
}
