package options

// Shared are the settings that several controllers read. Each has one flag.
type Shared struct {
	// RootCAFile is the CA bundle published to every namespace and written into token secrets; empty means none.
	RootCAFile string
	// ServiceAccountKeyFile is the private key that signs secret-based service account tokens; empty means none.
	ServiceAccountKeyFile string
	// ServiceAccountTokenSyncs is the number of service accounts and of token secrets handled at once.
	ServiceAccountTokenSyncs int32
}
