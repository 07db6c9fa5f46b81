package hazard

// rule is what a name means to tools of the host.
type rule struct {
	kind Kind
	why  string
}

// byName are files and links by their names in lower case, or by folder/name. What is in a folder of byFolder needs no row of its own.
var byName = map[string]rule{
	".envrc":             {KindShell, "direnv executes it on cd"},
	".env":               {KindShell, "dotenv plugins of shells execute it on cd"},
	".autoenv.zsh":       {KindShell, "autoenv executes it on cd"},
	".autoenv_leave.zsh": {KindShell, "autoenv executes it on leaving the folder"},
	".mise.toml":         {KindShell, whyMise},
	"mise.toml":          {KindShell, whyMise},
	".mise.local.toml":   {KindShell, whyMise},
	"mise.local.toml":    {KindShell, whyMise},
	".config/mise.toml":  {KindShell, whyMise},
	"mise/config.toml":   {KindShell, whyMise},
	".mise/config.toml":  {KindShell, whyMise},
	".rtx.toml":          {KindShell, whyMise},
	".tool-versions":     {KindShell, "asdf and mise choose by it which program a command starts, by a path too"},
	"flake.nix":          {KindShell, "direnv (use flake) and nix develop evaluate it and execute its shellHook"},
	"shell.nix":          {KindShell, "direnv (use nix) and nix-shell evaluate it and execute its shellHook"},
	"devenv.nix":         {KindShell, "direnv (use devenv) and devenv execute its scripts"},

	".nvim.lua":            {KindEditor, "Neovim executes it in this folder (exrc)"},
	".nvimrc":              {KindEditor, "Neovim executes it in this folder (exrc)"},
	".exrc":                {KindEditor, "vi, Vim and Neovim execute it in this folder (exrc)"},
	".vimrc":               {KindEditor, "Vim executes it in this folder (exrc)"},
	".gvimrc":              {KindEditor, "Vim executes it in this folder (exrc)"},
	".lvimrc":              {KindEditor, "Vim's localvimrc executes it"},
	".dir-locals.el":       {KindEditor, "Emacs evaluates it on opening a file"},
	".dir-locals-2.el":     {KindEditor, "Emacs evaluates it on opening a file"},
	".ycm_extra_conf.py":   {KindEditor, "YouCompleteMe executes it on opening a file"},
	".neoconf.json":        {KindEditor, "Neovim takes from it which language servers to start"},
	".devcontainer.json":   {KindEditor, whyDevcontainer},
	".mcp.json":            {KindAgent, "Claude Code and others start the servers that it names"},
	"opencode.json":        {KindAgent, "OpenCode starts the servers that it names"},
	"opencode.jsonc":       {KindAgent, "OpenCode starts the servers that it names"},
	".aider.conf.yml":      {KindAgent, "Aider executes the lint and test commands in it"},
	"crush.json":           {KindAgent, "Crush starts the servers that it names"},
	".crush.json":          {KindAgent, "Crush starts the servers that it names"},
	".gitconfig":           {KindRepository, "git executes what it says where include.path names it"},
	".gitmodules":          {KindSubmodule, "git submodule takes from it where to clone from, and what to"},
	".gitattributes":       {KindHook, "git takes from it which of your filters and drivers to execute"},
	"lefthook.yml":         {KindHook, whyLefthook},
	"lefthook.yaml":        {KindHook, whyLefthook},
	"lefthook.toml":        {KindHook, whyLefthook},
	"lefthook.json":        {KindHook, whyLefthook},
	"lefthook-local.yml":   {KindHook, whyLefthook},
	"lefthook-local.yaml":  {KindHook, whyLefthook},
	".lefthook.yml":        {KindHook, whyLefthook},
	".lefthook.yaml":       {KindHook, whyLefthook},
	".lefthook.toml":       {KindHook, whyLefthook},
	".lefthook-local.yml":  {KindHook, whyLefthook},
	".huskyrc":             {KindHook, "husky executes it on git's hooks"},
	".overcommit.yml":      {KindHook, "overcommit executes it on git's hooks"},
	"captainhook.json":     {KindHook, "CaptainHook executes it on git's hooks"},
	"grumphp.yml":          {KindHook, "GrumPHP executes it on git commit"},
	".lintstagedrc":        {KindHook, whyLintStaged},
	".lintstagedrc.json":   {KindHook, whyLintStaged},
	".lintstagedrc.yaml":   {KindHook, whyLintStaged},
	".lintstagedrc.yml":    {KindHook, whyLintStaged},
	".commitlintrc":        {KindHook, "commitlint loads what it names on git commit"},
	".czrc":                {KindHook, "commitizen loads the program that it names on git commit"},
	".simple-git-hooks.js": {KindHook, "simple-git-hooks makes git's hooks of it"},

	".simple-git-hooks.json":  {KindHook, "simple-git-hooks makes git's hooks of it"},
	".pre-commit-config.yaml": {KindHook, "pre-commit executes its hooks on git commit"},
	".pre-commit-hooks.yaml":  {KindHook, "pre-commit executes its hooks on git commit"},

	".gitlab-ci.yml":          {KindCI, "GitLab CI executes it after a push"},
	".gitlab-ci.yaml":         {KindCI, "GitLab CI executes it after a push"},
	".travis.yml":             {KindCI, "Travis CI executes it after a push"},
	"jenkinsfile":             {KindCI, "Jenkins executes it after a push"},
	"azure-pipelines.yml":     {KindCI, "Azure Pipelines execute it after a push"},
	"azure-pipelines.yaml":    {KindCI, "Azure Pipelines execute it after a push"},
	"bitbucket-pipelines.yml": {KindCI, "Bitbucket Pipelines execute it after a push"},
	".drone.yml":              {KindCI, "Drone executes it after a push"},
	".woodpecker.yml":         {KindCI, "Woodpecker executes it after a push"},
	".woodpecker.yaml":        {KindCI, "Woodpecker executes it after a push"},
	".cirrus.yml":             {KindCI, "Cirrus CI executes it after a push"},
	".build.yml":              {KindCI, "SourceHut executes it after a push"},
	"appveyor.yml":            {KindCI, "AppVeyor executes it after a push"},
	".appveyor.yml":           {KindCI, "AppVeyor executes it after a push"},
	"cloudbuild.yaml":         {KindCI, "Cloud Build executes it after a push"},
	"action.yml":              {KindCI, "GitHub Actions execute it after a push"},
	"action.yaml":             {KindCI, "GitHub Actions execute it after a push"},
}

const (
	whyMise         = "mise executes its hooks and templates on cd"
	whyLefthook     = "lefthook executes it on git's hooks"
	whyLintStaged   = "lint-staged executes its commands on git commit"
	whyDevcontainer = "Dev Containers execute its initializeCommand on the host"
)

// byFolder are folders by their names, or by folder/name: all that is below one counts.
var byFolder = map[string]rule{
	".direnv": {KindShell, "direnv executes what is kept in it on cd"},
	".mise":   {KindShell, whyMise},

	".vscode":       {KindEditor, "VS Code and its relatives take tasks and programs from it on opening the folder"},
	".idea":         {KindEditor, "JetBrains editors take tasks and programs from it on opening the folder"},
	".run":          {KindEditor, "JetBrains editors take programs to run from it"},
	".zed":          {KindEditor, "Zed takes tasks and programs from it on opening the folder"},
	".fleet":        {KindEditor, "Fleet takes programs to run from it"},
	".vs":           {KindEditor, "Visual Studio takes tasks from it on opening the folder"},
	".nova":         {KindEditor, "Nova takes tasks from it on opening the folder"},
	".helix":        {KindEditor, "Helix takes from it which language servers to start"},
	".vim":          {KindEditor, "Vim's plugins take from it which programs to start"},
	".nvim":         {KindEditor, "Neovim's plugins take from it what to execute"},
	".devcontainer": {KindEditor, whyDevcontainer},

	".claude":   {KindAgent, "Claude Code executes its hooks and starts what it names"},
	".codex":    {KindAgent, "Codex starts the programs that it names"},
	".cursor":   {KindAgent, "Cursor executes its hooks and starts the servers that it names"},
	".gemini":   {KindAgent, "Gemini CLI starts the servers that it names"},
	".opencode": {KindAgent, "OpenCode loads its plugins and starts what it names"},
	".continue": {KindAgent, "Continue starts the servers that it names"},
	".windsurf": {KindAgent, "Windsurf executes its hooks and workflows"},
	".roo":      {KindAgent, "Roo Code starts the servers that it names"},
	".kiro":     {KindAgent, "Kiro executes its hooks and starts the servers that it names"},
	".amazonq":  {KindAgent, "Amazon Q starts the servers that it names"},
	".qwen":     {KindAgent, "Qwen Code starts the servers that it names"},
	".factory":  {KindAgent, "Droid executes its hooks and starts the servers that it names"},

	".husky":     {KindHook, "husky has git execute it as hooks"},
	".githooks":  {KindHook, "git executes its hooks where core.hooksPath names it"},
	".git-hooks": {KindHook, "git executes its hooks where core.hooksPath names it"},
	".lefthook":  {KindHook, whyLefthook},

	".github/workflows":  {KindCI, "GitHub Actions execute it after a push"},
	".github/actions":    {KindCI, "GitHub Actions execute it after a push"},
	".gitea/workflows":   {KindCI, "Gitea Actions execute it after a push"},
	".forgejo/workflows": {KindCI, "Forgejo Actions execute it after a push"},
	".gitlab/ci":         {KindCI, "GitLab CI executes it after a push"},
	".circleci":          {KindCI, "CircleCI executes it after a push"},
	".buildkite":         {KindCI, "Buildkite executes it after a push"},
	".woodpecker":        {KindCI, "Woodpecker executes it after a push"},
	".semaphore":         {KindCI, "Semaphore executes it after a push"},
	".teamcity":          {KindCI, "TeamCity executes it after a push"},
	".builds":            {KindCI, "SourceHut executes it after a push"},

	".yarn/releases": {KindBuild, "yarn starts itself from it (yarnPath)"},
	".yarn/plugins":  {KindBuild, "yarn loads it on every command"},
	".mvn":           {KindBuild, "Maven takes its options, extensions and wrapper from it"},
	"gradle/wrapper": {KindBuild, "gradlew downloads and executes what it names"},
}

// dependencies are folders that hold what other programs have made, in numbers: of what is in one only
// what is met on the way counts by itself. The rest makes one finding for the folder.
var dependencies = map[string]bool{
	"node_modules": true, "bower_components": true, "vendor": true, "target": true, "dist": true, "build": true, "out": true, "_build": true,
	".venv": true, "venv": true, ".tox": true, ".nox": true, "site-packages": true, "__pycache__": true, ".eggs": true,
	".gradle": true, ".next": true, ".nuxt": true, ".cache": true, ".terraform": true, ".bundle": true, "pods": true, "dist-newstyle": true, ".stack-work": true,
}

const whyDependencies = "it holds programs and build files that are new or changed; package managers, test runners and scripts execute them"
