package sandbox

import (
	"forage"
	"forage/internal/store"
)

// withWorkspaces fills in what a record says of its plan's workspaces.
func withWorkspaces(record store.Record) store.Record {
	main := record.Plan.Workspace
	record.Workspace, record.WorkspaceMode = main.Path, main.Mode
	record.SourceRepo, record.GitBranch = main.Source, main.Branch
	if main.Mode == forage.WorkspaceJJ {
		record.JJWorkspaceName = record.Name
	}
	if len(record.Plan.Parts) == 0 {
		return record
	}
	for _, w := range record.Plan.Workspaces() {
		record.WorkspaceMounts = append(record.WorkspaceMounts, store.WorkspaceMount{
			Name: w.Name, ContainerPath: w.Target, HostPath: w.Path, SourceRepo: w.Source,
			Mode: string(w.Mode), Branch: w.Branch, ReadOnly: w.ReadOnly,
		})
	}
	return record
}
