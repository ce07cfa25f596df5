// Reads user data from standard input the way nodeadm does on a node, checks it, and prints the node's configuration.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/api"
	"github.com/awslabs/amazon-eks-ami/nodeadm/internal/configprovider"
)

func main() {
	data, err := io.ReadAll(os.Stdin)
	if err != nil {
		fail(err)
	}
	config, err := configprovider.Read(data)
	if err != nil {
		fail(err)
	}
	if err := api.ValidateNodeConfig(config); err != nil {
		fail(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(config.Spec); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
