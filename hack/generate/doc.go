// Generate writes the parts of the documentation that follow from the program: the table of controllers in README.md.
// With -check it writes nothing and fails if a part is not fresh.
package main
