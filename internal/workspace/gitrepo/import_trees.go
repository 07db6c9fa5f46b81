package gitrepo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
)

// treeReader reads trees one by one from a git that stays.
type treeReader struct {
	ask     *io.PipeWriter
	answers *io.PipeReader
	answer  *bufio.Reader
	ended   chan struct{}
}

// readTrees starts one. It has to be closed.
func (s *Shadow) readTrees(ctx context.Context) *treeReader {
	asked, ask := io.Pipe()
	answers, answer := io.Pipe()
	r := &treeReader{ask: ask, answers: answers, answer: bufio.NewReaderSize(answers, 64<<10), ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		_, err := s.Git(ctx, Call{Args: []string{"cat-file", "--batch"}, Input: asked, Writer: answer, Env: readsHostile})
		if err == nil {
			err = io.ErrUnexpectedEOF
		}
		asked.CloseWithError(err)
		answer.CloseWithError(err)
	}()
	return r
}

// close ends git, also in the middle of an answer.
func (r *treeReader) close() {
	r.ask.Close()
	r.answers.Close()
	<-r.ended
}

// tree is the content of a tree of at most maxLooseParsed bytes.
func (r *treeReader) tree(id string) ([]byte, error) {
	if _, err := io.WriteString(r.ask, id+"\n"); err != nil {
		return nil, fmt.Errorf("reading the tree %s: %w", id, err)
	}
	line, err := r.answer.ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("reading the tree %s: %w", id, err)
	}
	var got, kind string
	var size int64
	if _, err := fmt.Sscanf(line, "%s %s %d\n", &got, &kind, &size); err != nil || kind != "tree" {
		return nil, fmt.Errorf("the tree %s is not there, or no tree: %s", id, strings.TrimSpace(line))
	}
	if size > maxLooseParsed {
		return nil, errTooMany
	}
	body := make([]byte, size+1) // with the newline that follows
	if _, err := io.ReadFull(r.answer, body); err != nil {
		return nil, fmt.Errorf("reading the tree %s: %w", id, err)
	}
	return body[:size], nil
}
