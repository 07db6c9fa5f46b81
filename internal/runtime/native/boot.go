package native

import (
	"encoding/json"

	"forage"
)

// boot is the body of frames.Boot: what the child builds. The descriptors
// beside it are in the order in which the fields that mention them say so.
type boot struct {
	// Trial asks for no sandbox but for trying out what making one takes.
	Trial    bool            `json:"trial,omitempty"`
	Name     string          `json:"name"`
	Identity forage.Identity `json:"identity"`
	// DropGroups: setgroups(2) is allowed in the user namespace, and the child has to call it.
	DropGroups bool  `json:"dropGroups,omitempty"`
	DiskMax    int64 `json:"diskMax"` // bytes of the tmpfs, never 0
	Inodes     int64 `json:"inodes"`
	TasksMax   int64 `json:"tasksMax,omitempty"`
	// TasksCeiling bounds the sandbox where TasksMax is 0; 0 where the kernel would count the caller's own.
	TasksCeiling int64 `json:"tasksCeiling,omitempty"`
	Nesting    bool  `json:"nesting,omitempty"`
	// Lower are the layers of an overlay, uppermost first; none for the host's view.
	Lower  []tree        `json:"lower,omitempty"`
	Mounts []tree        `json:"mounts"` // sorted: what holds another comes first
	Links  []forage.Link `json:"links,omitempty"`
	Files  []forage.File `json:"files,omitempty"`
	// Masks are the host's sockets below the mounts that are not looked through.
	Masks []string `json:"masks,omitempty"`
	// Program is our own executable.
	Program tree `json:"program"`
	// HasLog: the second descriptor is Request.Log; the first is always Request.SSH.
	HasLog bool            `json:"hasLog,omitempty"`
	Guest  json.RawMessage `json:"guest"`
}

// tree is something of the host to be mounted.
type tree struct {
	forage.Mount
	// FD is the index of the descriptor that is the detached mount itself, made
	// by the parent; 0 (which is Request.SSH) says that the child opens Source.
	FD int `json:"fd,omitempty"`
	// Folder: Source is a folder. It is not set for a System mount that the child opens.
	Folder bool `json:"folder,omitempty"`
}
