// What Go's own resolver makes of a name: `lookup a NAME`, `lookup srv NAME`.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
)

func main() {
	resolver := &net.Resolver{PreferGo: true}
	fail := func(err error) {
		fmt.Println("!", err)
		os.Exit(1)
	}
	if os.Args[1] == "srv" {
		_, records, err := resolver.LookupSRV(context.Background(), "", "", os.Args[2])
		if err != nil {
			fail(err)
		}
		for _, one := range records {
			fmt.Println(one.Port, one.Target)
		}
		return
	}
	addresses, err := resolver.LookupHost(context.Background(), os.Args[2])
	if err != nil {
		fail(err)
	}
	for _, one := range addresses {
		fmt.Println(one)
	}
}
