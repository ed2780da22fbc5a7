// Generate writes the parts of the documentation that follow from the program: the table of controllers in README.md,
// and the list of those that are left to upstream in the patch for the manager that runs beside Orrery.
// With -check it writes nothing and fails if a part is not fresh.
package main
