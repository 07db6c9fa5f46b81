package browse

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"forage"
	"forage/internal/deadline"
)

// Ask is main inside for each of forage.Browsers(): it asks the user on the host to open a page. It
// returns the exit status, as xdg-open(1) has them.
func Ask(args []string, errs io.Writer) int {
	const noPage, failed = 1, 4
	page := ""
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			page = arg
		}
	}
	if page == "" {
		fmt.Fprintln(errs, "usage: xdg-open URL: asks the user on the host to open a page")
		return noPage
	}
	client := http.Client{Transport: &http.Transport{}, Timeout: deadline.Answer} // without the proxy of the environment: it is the proxy
	res, err := client.Post("http://127.0.0.1:"+strconv.Itoa(forage.ProxyPort)+Path, "text/plain", strings.NewReader(page))
	if err != nil {
		fmt.Fprintln(errs, "the host does not answer:", err)
		return failed
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, MaxURL)) // what there is of it
	if res.StatusCode != http.StatusOK {
		fmt.Fprintf(errs, "not asked: %s\n", strings.TrimSpace(string(answer)))
		return failed
	}
	fmt.Fprintf(errs, "Your user was asked to open this page, with: forage-ctl open %s\n", os.Getenv("FORAGE_SANDBOX"))
	return 0
}
