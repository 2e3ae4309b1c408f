// The library of Go: goroutines and channels, maps, text, files, panics, the clock, input and the end.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"
	"sync"
	"time"
)

// Squares what comes in, until nothing more does.
func square(in <-chan int, out chan<- int, done *sync.WaitGroup) {
	defer done.Done()
	for number := range in {
		out <- number * number
	}
}

func goroutines() {
	in, out := make(chan int), make(chan int, 8)
	var done sync.WaitGroup
	for i := 0; i < 4; i++ {
		done.Add(1)
		go square(in, out, &done)
	}
	go func() {
		for i := 1; i <= 100; i++ {
			in <- i
		}
		close(in)
		done.Wait()
		close(out)
	}()
	sum := 0
	for number := range out {
		sum += number
	}
	fmt.Println("squares", sum)
}

func recovered() (what string) {
	defer func() { what = fmt.Sprint(recover()) }()
	var none []int
	return fmt.Sprint(none[len(os.Args)])
}

func garbage() {
	kept := map[string][]byte{}
	for i := 0; i < 20000; i++ {
		kept[fmt.Sprint(i%500)] = make([]byte, 1000+i%1000)
	}
	total := 0
	for _, bytes := range kept {
		total += len(bytes)
	}
	fmt.Println("kept", len(kept), total)
}

func files() error {
	if err := os.MkdirAll("a/b", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("a/b/text", []byte("some text\n"), 0o644); err != nil {
		return err
	}
	if err := os.Rename("a/b/text", "a/moved"); err != nil {
		return err
	}
	file, err := os.Open("a/moved")
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(5, io.SeekStart); err != nil {
		return err
	}
	rest, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir("a")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		fmt.Println(entry.Name(), entry.IsDir())
	}
	_, missing := os.Stat("nothing")
	fmt.Printf("%q %v\n", rest, os.IsNotExist(missing))
	return nil
}

func main() {
	fmt.Println(strings.Join(os.Args[1:], "|"))
	names := os.Environ()
	sort.Strings(names)
	fmt.Println(names)
	scanner := bufio.NewScanner(os.Stdin)
	for scanner.Scan() {
		fmt.Printf("%q\n", scanner.Text())
	}
	goroutines()
	garbage()
	fmt.Println(recovered())
	if err := files(); err != nil {
		fmt.Println(err)
	}
	before := time.Now()
	time.Sleep(20 * time.Millisecond)
	fmt.Println("slept", time.Since(before) >= 20*time.Millisecond)
	fmt.Fprintln(os.Stderr, "the end")
	os.Exit(5)
}
