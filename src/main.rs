fn main(){
  let a: Vec<String> = std::env::args().collect();
  let s = std::fs::read_to_string(&a[2]).unwrap();
  let w = schedpatch::edit::Wanted{revision:"0123456789ab".into(),generation:1,config_dir:"/var/lib/schedpatch/revisions/0123456789ab".into(),image:None,dns_policy:None};
  match a[1].as_str() {
   "none" => {}
   "draft" => { schedpatch::edit::patch(&s,&w).unwrap(); }
   "patch" => { schedpatch::edit::patch(&s,&w).unwrap().prove().unwrap(); }
   "show" => match schedpatch::edit::patch(&s,&w).and_then(|d|d.prove()) { Ok(t)=>print!("{t}"), Err(e)=>{println!("{e:?}")} },
   "undo" => match schedpatch::edit::unpatch(&s).and_then(|d|d.prove()) { Ok(t)=>print!("{t}"), Err(e)=>{println!("{e:?}")} },
   _ => {}
  }
}
