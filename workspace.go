package forage

import (
	"path"
	"strings"
)

// WorkspaceMode says how a workspace relates to the user's files.
type WorkspaceMode string

// The workspace modes.
const (
	WorkspaceDirect   WorkspaceMode = "direct"       // the user's own folder, mounted
	WorkspaceWorktree WorkspaceMode = "git-worktree" // a worktree of the user's git repository
	WorkspaceJJ       WorkspaceMode = "jj"           // a workspace of the user's jj repository
	WorkspaceClone    WorkspaceMode = "clone"        // a private clone of a git repository
)

// Workspace is one folder of files that the agent works on. It is a part of the
// plan: frozen into the record when the sandbox is made, and all that is needed
// to bring work back, to look after it and to take it away.
type Workspace struct {
	// Name is "main", or what the configuration calls this part of a composed workspace.
	Name     string        `json:"name,omitempty"`
	Mode     WorkspaceMode `json:"mode"`
	Path     string        `json:"path"`             // on the host, mounted at Target: absolute, links resolved
	Target   string        `json:"target,omitempty"` // inside
	ReadOnly bool          `json:"readOnly,omitempty"`
	// Source is where the work comes from: the user's repository (its folder as
	// resolved), or the URL of a clone. For a direct
	// workspace it is empty: Path is the source.
	Source string `json:"source,omitempty"`
	// Branch is the branch (jj: bookmark) of the host's repository that commits are
	// brought to: forage-SANDBOX. "" without a repository.
	Branch string `json:"branch,omitempty"`
	// Base is the commit that the work starts from, in hex; "" while there is none.
	Base string `json:"base,omitempty"`
	// Repository is the sandbox's private repository metadata; nil: there is no repository.
	Repository *Repository `json:"repository,omitempty"`
	// Empty makes a new working folder without files, which come from elsewhere. A provider may
	// ignore it.
	Empty bool `json:"-"`
}

// RepositoryKind is a version control system.
type RepositoryKind string

// The kinds of repository.
const (
	RepositoryGit RepositoryKind = "git"
	RepositoryJJ  RepositoryKind = "jj"
)

// Repository is the private metadata that stands inside for that of the host's repository, which
// the sandbox never sees but for its objects. All of Dir was written by the agent: the host reads
// it as data, and never opens it as a repository.
type Repository struct {
	Kind RepositoryKind `json:"kind"`
	// Dir on the host holds what is private, and nothing else: git/ is a git
	// directory, jj/ a .jj folder, pointer a .git file.
	Dir string `json:"dir"`
	// Store is the git directory on the host (the common one) that has the objects and
	// gets the commits. For a clone it is Forage's own.
	Store string `json:"store"`
	// Head is the branch that the sandbox is on at first, as it is called inside; "" is a detached
	// head.
	Head string `json:"head,omitempty"`
	// Mounts show the metadata inside, and the host's objects read-only. They include those of
	// Nested.
	Mounts []Mount `json:"mounts"`
	// Nested are populated submodules of a direct workspace, which have private metadata too.
	Nested []Nested `json:"nested,omitempty"`
}

// Nested is a repository inside a workspace.
type Nested struct {
	Path       string     `json:"path"` // relative to the workspace
	Base       string     `json:"base,omitempty"`
	Repository Repository `json:"repository"`
}

// Part is one part of a composed workspace, as a template asks for it.
type Part struct {
	Name          string        `json:"name"`
	ContainerPath string        `json:"containerPath"` // inside: absolute and clean
	Repo          string        `json:"repo"`          // folder or repository on the host; for clone a URL too
	Mode          WorkspaceMode `json:"mode"`
	Branch        string        `json:"branch,omitempty"`
	ReadOnly      bool          `json:"readOnly,omitempty"`
}

// IsURL says whether git clone takes text for a URL, or for host:path, and not for a path
// of this host: git-clone(1), "GIT URLS".
func IsURL(text string) bool {
	before, _, colon := strings.Cut(text, ":")
	return strings.Contains(text, "://") || colon && before != "" && !strings.Contains(before, "/")
}

// reserved are places inside that Forage itself makes; a mount there, or over
// a folder that holds one, would take its walls away.
var reserved = [...]string{
	"/proc", "/sys", "/dev", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib64", RunPath, RepositoriesPath, WorkspacePath, HomePath,
}

// CheckTarget says why nothing of the user's can be mounted at a place inside, beside the workspace
// itself.
func CheckTarget(target string) error {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		return Errorf(ErrUsage, "expected an absolute path other than /, without . or .. or a slash at its end")
	}
	for _, place := range reserved {
		// Below the workspace and the home there is room for mounts.
		open := place == WorkspacePath || place == HomePath
		if target == place || strings.HasPrefix(place, target+"/") || !open && strings.HasPrefix(target, place+"/") {
			return Errorf(ErrUsage, "%s is Forage's own", place)
		}
	}
	return nil
}

// Workspaces are all parts of the workspace, the main one first.
func (p Plan) Workspaces() []Workspace { return append([]Workspace{p.Workspace}, p.Parts...) }
