// Command nothing waits until it is told to end. It is what the pods of the scenarios run where real kubelets run them.
package main
