package store

import (
	"time"

	"forage"
)

// Version is the version of Record that this package writes.
const Version = 1

// Record is one sandbox as it is kept on disk, in sandboxes/NAME.json:
//
//	{"version":1,"name":"myproject","template":"claude","runtime":"native","port":2200,
//	 "workspace":"/home/user/project","networkSlot":1,"createdAt":"2026-01-15T10:30:00Z",
//	 "workspaceMode":"direct", ... ,"phase":"running","plan":{...}}
//
// It never holds the value of a secret or of a variable taken from the caller's environment.
type Record struct {
	Version       int                  `json:"version"`
	Name          string               `json:"name"`
	Template      string               `json:"template"`
	Runtime       string               `json:"runtime"`
	Port          int                  `json:"port,omitempty"` // SSH on sshListen; 0: none (run)
	Workspace     string               `json:"workspace"`
	NetworkSlot   int                  `json:"networkSlot"` // 1.. unique among sandboxes of one state folder
	CreatedAt     time.Time            `json:"createdAt"`
	WorkspaceMode forage.WorkspaceMode `json:"workspaceMode"`

	SourceRepo      string           `json:"sourceRepo,omitempty"`      // what the workspace is made from: a folder, or a URL
	JJWorkspaceName string           `json:"jjWorkspaceName,omitempty"` // in that repository
	GitBranch       string           `json:"gitBranch,omitempty"`       // that commits are brought to
	WorkspaceMounts []WorkspaceMount `json:"workspaceMounts,omitempty"` // of a composed workspace: all parts, the main one first
	// WorkspaceReady: the workspace was created as a whole. A program may have run in it since.
	WorkspaceReady bool `json:"workspaceReady,omitempty"`

	Phase forage.Phase `json:"phase"`
	// Reason says why Phase is what it is, when that needs saying ("supervisor died").
	Reason    string    `json:"reason,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	// ExitCode is that of the command of a run that was kept; nil: it has been started again, or is
	// not known.
	ExitCode *int `json:"exitCode,omitempty"`
	// Expires is when gc removes the result of a run; zero: never.
	Expires time.Time   `json:"expires,omitzero"`
	Plan    forage.Plan `json:"plan"`
	// Trees are the folders of the image cache that it was last started from.
	Trees []string `json:"trees,omitempty"`
	// Network is the live network policy: Plan.Network with the changes made since.
	Network forage.Network `json:"network"`
}

// WorkspaceMount is one of several parts of a composed workspace.
type WorkspaceMount struct {
	Name          string `json:"name"`
	ContainerPath string `json:"containerPath"`
	HostPath      string `json:"hostPath"`
	SourceRepo    string `json:"sourceRepo,omitempty"`
	Mode          string `json:"mode"`
	Branch        string `json:"branch,omitempty"`
	ReadOnly      bool   `json:"readOnly,omitempty"`
}
