//! Requests from outside to a program that an embedder runs: `wasm-aot ctl PID record`, and, if it
//! has a session, the requests that programs of `wasm-aot run` take.
//!
//! A request arrives through a socket that only its user can access, and waits until the embedder
//! reaches a quiet point, where none of the program's functions is executing. Only the store's
//! owner knows these points, and needs exclusive access to the store there.

use super::Recorder;
use crate::{Instance, Module, Store};
use control::Answer;
use control::registry::Tower;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use wasm_aot_trace::Program;
use wordpatch::os::sockets::Listener;

/// The maximum time to wait for a sender, and for a quiet point.
const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum length of a request.
const LONGEST: u64 = 4096;

/// Requests to record a program that has quiet points: one that an embedder calls repeatedly.
///
/// ```no_run
/// # use wasm_aot::{Instance, Module, Store, recording::Requests, trace::Program};
/// # fn serve(
/// #     mut store: Store<()>, module: Module, instance: Instance, program: Program,
/// # ) -> std::io::Result<()> {
/// let mut requests = Requests::listen("server.wasm")?;
/// loop {
///     requests.carry_out(&mut store, &module, instance, &program);
///     // … call the program …
/// #   break;
/// }
/// requests.finish(&mut store);
/// # Ok(())
/// # }
/// ```
///
/// With a session, `wasm-aot ctl`, `fastinst ctl` and `fastinst top` attach built-in monitors to
/// the program and read them, at any time: `Requests::steered`.
#[derive(Debug)]
pub struct Requests {
    waiting: Arc<Mutex<Option<Request>>>,
    recording: Option<(PathBuf, Recorder<File>)>,
    listener: Arc<Listener>,
}

#[derive(Debug)]
struct Request {
    what: Wanted,
    tell: mpsc::SyncSender<Result<String, String>>,
}

#[derive(Debug)]
enum Wanted {
    Begin(PathBuf),
    End,
}

impl Requests {
    /// Listens for this process. `program` is its name in lists of programs.
    ///
    /// # Errors
    /// If there is no folder for sockets that only the user can access, or no thread can be
    /// started.
    pub fn listen(program: &str) -> io::Result<Self> {
        let status = format!("program   {program}\n").into_bytes();
        Self::serve(move |line| match line {
            "status" => Ok(status.clone()),
            _ => Err("it is an embedder's: expected status or record".to_owned()),
        })
    }

    /// Listens for this process, and passes other requests to the session of its program.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use wasm_aot::{recording::Requests, session::Session, steering::Steering};
    /// # fn serve(session: Arc<Session>) -> std::io::Result<()> {
    /// let requests = Requests::steered(Steering::new("server.wasm", session))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If there is no folder for sockets that only the user can access, or no thread can be
    /// started.
    #[cfg(feature = "steering")]
    pub fn steered(steering: crate::steering::Steering) -> io::Result<Self> {
        Self::serve(move |line| steering.obey(line))
    }

    fn serve(obey: impl Fn(&str) -> Result<Vec<u8>, String> + Send + 'static) -> io::Result<Self> {
        let listener = Listener::bind(&Tower::Wasm.socket(std::process::id() as i32))?;
        let (listener, waiting) = (Arc::new(listener), Arc::default());
        let (accepting, own) = (Arc::clone(&listener), Arc::clone(&waiting));
        let serve = move || {
            while let Ok(stream) = accepting.accept() {
                // A sender that has disconnected does not end the thread.
                let _ = answer(&stream, &own, &obey);
            }
        };
        std::thread::Builder::new().name("requests".into()).spawn(serve)?;
        Ok(Self { waiting, recording: None, listener })
    }

    /// Begins and ends recordings as requested. Must be called at quiet points; without a request
    /// it takes a lock and returns.
    pub fn carry_out<T>(
        &mut self,
        store: &mut Store<T>,
        module: &Module,
        instance: Instance,
        program: &Program,
    ) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Request { what, tell }) = waiting else { return };
        let done = match what {
            Wanted::Begin(path) => self.begin(store, module, instance, program, path),
            Wanted::End => self.finish(store).ok_or_else(|| "nothing is being recorded".to_owned()),
        };
        let _ = tell.send(done);
    }

    fn begin<T>(
        &mut self,
        store: &mut Store<T>,
        module: &Module,
        instance: Instance,
        program: &Program,
        path: PathBuf,
    ) -> Result<String, String> {
        if let Some((other, _)) = &self.recording {
            let other = other.display();
            return Err(format!("it is being recorded into {other}: `record --end` ends that"));
        }
        let shown = path.display().to_string();
        let file = File::create_new(&path).map_err(|error| format!("{shown}: {error}"))?;
        match Recorder::at_quiet_point(store, module, instance, program, file) {
            Ok(recorder) => {
                self.recording = Some((path, recorder));
                Ok(format!("{shown}: recording begins\n"))
            }
            Err(error) => {
                let _ = std::fs::remove_file(&path);
                Err(error.to_string())
            }
        }
    }

    /// Ends the recording, if there is one, and returns a summary of it.
    pub fn finish<T>(&mut self, store: &mut Store<T>) -> Option<String> {
        let (path, recorder) = self.recording.take()?;
        Some(recorder.finish(store).summary(&path) + "\n")
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        // Its thread has the session, and with it the program.
        self.listener.close();
    }
}

fn answer(
    stream: &UnixStream,
    waiting: &Mutex<Option<Request>>,
    obey: &dyn Fn(&str) -> Result<Vec<u8>, String>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
    let line = line.trim_end_matches('\n');
    let done = match (line.split_once(' '), line) {
        (_, "record end") => ask(waiting, Wanted::End).map(String::into_bytes),
        (Some(("record", path)), _) => {
            ask(waiting, Wanted::Begin(path.into())).map(String::into_bytes)
        }
        (_, line) => obey(line),
    };
    let answer = Answer::from(done);
    (&mut &*stream).write_all(&answer.bytes())
}

/// Makes the embedder perform a task at its next quiet point.
fn ask(waiting: &Mutex<Option<Request>>, what: Wanted) -> Result<String, String> {
    let (tell, hear) = mpsc::sync_channel(1);
    let lock = || waiting.lock().unwrap_or_else(PoisonError::into_inner);
    *lock() = Some(Request { what, tell });
    hear.recv_timeout(PATIENCE)
        .or_else(|_| match lock().take() {
            Some(_) => Err(mpsc::RecvTimeoutError::Timeout),
            // The embedder has begun the task.
            None => hear.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected),
        })
        .unwrap_or_else(|_| {
            Err("it has come to no quiet point for 5 seconds: ask again, or record it from its \
             beginning by `wasm-aot record`"
                .to_owned())
        })
}
