package configprovider

import (
	internalapi "github.com/awslabs/amazon-eks-ami/nodeadm/internal/api"
	apibridge "github.com/awslabs/amazon-eks-ami/nodeadm/internal/api/bridge"
)

// Read is what a node does with its user data, without the metadata service.
func Read(data []byte) (*internalapi.NodeConfig, error) {
	reader, err := getMIMEMultipartReader(data)
	if err != nil {
		return apibridge.DecodeNodeConfig(data)
	}
	return parseMultipart(reader)
}
