use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

/// A directory that goes with the value.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("millrace-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).unwrap();
        Temporary(path)
    }

    fn directory(&self) -> Directory {
        Directory::new(&self.0.join("a/b"), 1 << 20)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn key(number: u64) -> Key {
    Key::new("test", number)
}

#[test]
fn what_is_written_is_read_until_something_else_is() {
    let temporary = Temporary::new("written");
    let directory = temporary.directory();
    assert!(directory.read(&key(1)).unwrap().is_none(), "no directory");
    directory.write(&key(1), b"one").unwrap();
    assert!(directory.read(&key(2)).unwrap().is_none(), "no file");
    directory.write(&key(2), b"").unwrap();
    directory.write(&key(1), b"one more").unwrap();
    assert_eq!(directory.read(&key(1)).unwrap().unwrap(), b"one more");
    assert_eq!(directory.read(&key(2)).unwrap().unwrap(), b"");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(directory.path()), mode(&directory.path().join(key(1).name()))), (0o700, 0o600));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left beside them");
}

#[test]
fn damage_of_any_byte_or_length_is_found() {
    let temporary = Temporary::new("damage");
    let directory = temporary.directory();
    directory.write(&key(1), b"some code").unwrap();
    let path = directory.path().join(key(1).name());
    let good = fs::read(&path).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&path, &bad).unwrap();
        assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Damaged(..))), "byte {at}");
        fs::write(&path, &good[..at]).unwrap();
        assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Damaged(..))), "{at} bytes");
    }
    fs::write(&path, [&good[..], b"x"].concat()).unwrap();
    assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Damaged(..))), "one byte more");
    // A sound file of something else.
    directory.write(&key(2), b"other code").unwrap();
    fs::rename(directory.path().join(key(2).name()), &path).unwrap();
    assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Damaged(..))));
    directory.write(&key(1), b"some code").unwrap();
    assert_eq!(directory.read(&key(1)).unwrap().unwrap(), b"some code");
}

#[test]
fn what_others_may_write_to_is_not_read() {
    let temporary = Temporary::new("unsafe");
    let directory = temporary.directory();
    directory.write(&key(1), b"code").unwrap();
    let path = directory.path().join(key(1).name());
    let modes = |path: &Path, safe: u32| {
        for (mode, is_safe) in [(safe | 0o020, false), (safe | 0o002, false), (safe | 0o055, true), (safe, true)] {
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(directory.read(&key(1)).is_ok(), is_safe, "{} {mode:o}", path.display());
        }
    };
    modes(&path, 0o600);
    modes(directory.path(), 0o700);
    fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(directory.write(&key(3), b"code"), Err(DirectoryError::Mode(..))));
    fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
    // Links lead to what is somebody else's.
    let elsewhere = temporary.0.join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    assert!(directory.read(&key(1)).is_err(), "a symbolic link");
    fs::remove_file(&path).unwrap();
    fs::hard_link(&elsewhere, &path).unwrap();
    assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Kind(..))), "a second name");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Kind(..))), "a directory");
    let link = temporary.0.join("link");
    symlink(directory.path(), &link).unwrap();
    assert!(matches!(Directory::new(&link, 1).read(&key(1)), Err(DirectoryError::Kind(..))), "a linked directory");
}

#[test]
fn what_belongs_to_another_user_is_not_read() {
    let temporary = Temporary::new("foreign");
    let directory = temporary.directory();
    directory.write(&key(1), b"code").unwrap();
    if user() != 0 || std::os::unix::fs::chown(directory.path().join(key(1).name()), Some(1), None).is_err() {
        // Only root can give files away, and only to users that it knows: the root directory then is another user's,
        // or this test is run by an ordinary user, whose it is not.
        let shown = Path::new("/");
        let about = fs::metadata(shown).unwrap();
        assert_eq!(safe(shown, &about).is_err(), about.uid() != user());
        return;
    }
    assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Owner(_, 1, 0))));
    directory.write(&key(1), b"own code").unwrap();
    assert_eq!(directory.read(&key(1)).unwrap().unwrap(), b"own code", "another file is in its place");
    std::os::unix::fs::chown(directory.path(), Some(1), None).unwrap();
    assert!(matches!(directory.read(&key(1)), Err(DirectoryError::Owner(_, 1, 0))));
    assert!(matches!(directory.write(&key(1), b""), Err(DirectoryError::Owner(_, 1, 0))));
}

#[test]
fn the_oldest_files_go_where_there_is_too_much() {
    let temporary = Temporary::new("bound");
    let path = temporary.0.join("a");
    let directory = Directory::new(&path, 10_000);
    let age = |name: &str, seconds: u64| {
        let time = FileTimes::new().set_modified(SystemTime::now() - Duration::from_secs(seconds));
        OpenOptions::new().write(true).open(path.join(name)).unwrap().set_times(time).unwrap();
    };
    for number in 0..3 {
        directory.write(&key(number), &[1; 3000]).unwrap();
        age(&key(number).name(), 1000 - number);
    }
    fs::write(path.join(".new-1-1"), b"abandoned").unwrap();
    age(".new-1-1", 1000);
    fs::write(path.join(".new-1-2"), b"being written").unwrap();
    fs::write(path.join("README"), [0; 20_000]).unwrap();
    // The oldest was of use just now.
    assert!(directory.read(&key(0)).unwrap().is_some());
    directory.write(&key(3), &[1; 3000]).unwrap();
    let there: Vec<bool> = (0..4).map(|number| directory.read(&key(number)).unwrap().is_some()).collect();
    assert_eq!(there, [true, false, true, true]);
    let is_there = |name: &str| path.join(name).exists();
    assert_eq!((is_there(".new-1-1"), is_there(".new-1-2"), is_there("README")), (false, true, true));
    // One that is too much by itself stays, alone.
    directory.write(&key(4), &[1; 20_000]).unwrap();
    assert_eq!(directory.read(&key(4)).unwrap().unwrap().len(), 20_000);
    assert!((0..4).all(|number| directory.read(&key(number)).unwrap().is_none()));
}

#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let temporary = Temporary::new("refused");
    let file = temporary.0.join("file");
    fs::write(&file, b"").unwrap();
    let beneath = Directory::new(&file.join("a"), 1 << 20);
    assert!(matches!(beneath.write(&key(1), b"code"), Err(DirectoryError::System(..))));
    assert!(beneath.read(&key(1)).is_err());
    // A directory in the file's place: the last step fails.
    let directory = temporary.directory();
    directory.write(&key(1), b"code").unwrap();
    let place = directory.path().join(key(2).name());
    fs::create_dir(&place).unwrap();
    assert!(directory.write(&key(2), b"code").is_err());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
}

#[test]
fn writers_at_the_same_time_leave_one_whole_file() {
    let temporary = Temporary::new("together");
    let directory = &temporary.directory();
    let content = |writer: u8| vec![writer; 50_000 + usize::from(writer)];
    std::thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || (0..20).for_each(|_| directory.write(&key(1), &content(writer)).unwrap()));
        }
        scope.spawn(|| {
            for _ in 0..100 {
                let found = directory.read(&key(1)).unwrap();
                assert!(found.is_none_or(|found| found == content(found[0])));
            }
        });
    });
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
}
