//! Clients and approvers: registered, changed and revoked.

use std::collections::BTreeSet;

use writ::domain::digest::Digest;
use writ::domain::operation::Stage;
use writ::domain::principal::Permission;
use writ::store::Rejection;

use super::world::*;

super::over_one_and_two_connections! {
    who_is_not_registered_is_not_found,
    permissions_are_replaced_as_a_whole_and_only_for_who_is_registered,
    a_client_is_registered_once_and_stays_revoked,
    an_approver_gains_keys_and_authority_but_loses_none,
    a_revoked_approver_gains_nothing,
    authority_is_replaced_as_a_whole_and_only_for_who_is_registered,
    a_key_belongs_to_one_approver,
    one_public_key_has_one_name,
}

async fn who_is_not_registered_is_not_found(world: World) {
    let secret = Digest::of(b"s");
    assert_eq!(
        rejection(world.store().replace_secret(world.op(), "nobody".parse().unwrap(), secret).await),
        Rejection::NotFound
    );
    assert_eq!(
        rejection(world.store().revoke_client(world.op(), "nobody".parse().unwrap()).await),
        Rejection::NotFound
    );
    assert_eq!(
        rejection(world.store().revoke_approver(world.op(), "usr_nobody".parse().unwrap()).await),
        Rejection::NotFound
    );
    assert_eq!(
        rejection(world.store().revoke_key(world.op(), "k-nobody".parse().unwrap()).await),
        Rejection::NotFound
    );
    assert_eq!(world.store().client(&"nobody".parse().unwrap()).await.unwrap(), None);
    assert_eq!(world.store().approver(&"usr_nobody".parse().unwrap()).await.unwrap(), None);
    assert_eq!(world.store().approver_key(&"k-nobody".parse().unwrap()).await.unwrap(), None);
}

async fn a_client_is_registered_once_and_stays_revoked(world: World) {
    let entry = client(&world, "c-1");
    let id = entry.client.id.clone();
    world.store().add_client(world.op(), entry.clone()).await.unwrap();
    assert_eq!(world.store().client(&id).await.unwrap(), Some(entry.clone()));
    assert_eq!(
        rejection(world.store().add_client(world.op(), entry).await),
        Rejection::Exists("c-1".to_owned())
    );
    world
        .store()
        .replace_secret(world.op(), id.clone(), Digest::of(b"new"))
        .await
        .unwrap();
    assert_eq!(world.store().client(&id).await.unwrap().unwrap().secret_sha256, Digest::of(b"new"));
    let at = world.now();
    world.store().revoke_client(world.op(), id.clone()).await.unwrap();
    world.clock.advance(MINUTE);
    let events = world.events().await.len();
    world.store().revoke_client(world.op(), id.clone()).await.unwrap();
    assert_eq!(world.events().await.len(), events, "it was revoked already");
    assert_eq!(world.store().clients().await.unwrap()[0].client.revoked_at, Some(at));
    let secret = Digest::of(b"newer");
    assert_eq!(
        rejection(world.store().replace_secret(world.op(), id, secret).await),
        Rejection::NotFound
    );
}

async fn permissions_are_replaced_as_a_whole_and_only_for_who_is_registered(world: World) {
    let entry = client(&world, "c-1");
    for id in ["c-1", "c-2"] {
        world.store().add_client(world.op(), client(&world, id)).await.unwrap();
    }
    world.store().revoke_client(world.op(), "c-2".parse().unwrap()).await.unwrap();
    let less = vec![Permission {
        operations: "refund.create".parse().unwrap(),
        stages: BTreeSet::from([Stage::Draft]),
    }];
    let replace = |id: &str| world.store().replace_permissions(world.op(), id.parse().unwrap(), less.clone());
    let events = world.events().await.len();
    for nobody in ["nobody", "c-2"] {
        assert_eq!(rejection(replace(nobody).await), Rejection::NotFound, "{nobody}");
    }
    let revoked = world.store().client(&"c-2".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(revoked.client.permissions, entry.client.permissions);
    assert_eq!(world.events().await.len(), events, "who was refused wrote nothing");
    replace("c-1").await.unwrap();
    let mut expected = entry;
    expected.client.permissions.clone_from(&less);
    assert_eq!(world.store().client(&"c-1".parse().unwrap()).await.unwrap(), Some(expected.clone()));
    let told = world.events().await.pop().unwrap();
    assert_eq!(told["type"], "client.replace_permissions");
    assert_eq!(told["subject"], "c-1");
    let content = Digest::of(serde_json::to_string(&expected).unwrap().as_bytes());
    assert_eq!(told["content_sha256"], content.to_string());
}

async fn an_approver_gains_keys_and_authority_but_loses_none(world: World) {
    let mut more = world.approver("mia");
    let mut key = more.keys[0].clone();
    key.kid = "k-mia-2".parse().unwrap();
    key.public = "y".repeat(43);
    more.keys = vec![more.keys[0].clone(), key];
    let mut row = more.approver.authority[0].clone();
    row.queue = "security".parse().unwrap();
    more.approver.authority = vec![row];
    world.store().add_approver(world.op(), more).await.unwrap();
    let mia = world.store().approver(&"usr_mia".parse().unwrap()).await.unwrap().unwrap();
    let queues: Vec<_> = mia.approver.authority.iter().map(|row| row.queue.as_str()).collect();
    assert_eq!(queues, ["finance", "security"]);
    assert_eq!(mia.keys.len(), 2);
    world.store().add_approver(world.op(), world.approver("mia")).await.unwrap();
    assert_eq!(world.store().approvers().await.unwrap()[0], mia, "the same again changes nothing");
}

async fn a_revoked_approver_gains_nothing(world: World) {
    world.store().revoke_approver(world.op(), "usr_mia".parse().unwrap()).await.unwrap();
    let again = world.store().add_approver(world.op(), world.approver("mia")).await;
    assert_eq!(rejection(again), Rejection::Exists("usr_mia (revoked)".to_owned()));
    let key = world.store().approver_key(&"k-mia".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(key.revoked_at, Some(world.now()), "all keys go with their approver");
}

async fn authority_is_replaced_as_a_whole_and_only_for_who_is_registered(world: World) {
    let before = world.approver("mia");
    let mut row = before.approver.authority[0].clone();
    row.queue = "security".parse().unwrap();
    row.valid_to = Some(world.now().plus(HOUR));
    let replace = |name: &str| {
        let (op, id, rows) = (world.op(), name.parse().unwrap(), vec![row.clone()]);
        world.store().replace_authority(op, id, rows)
    };
    world.store().revoke_approver(world.op(), "usr_tom".parse().unwrap()).await.unwrap();
    let events = world.events().await.len();
    for nobody in ["usr_nobody", "usr_tom"] {
        assert_eq!(rejection(replace(nobody).await), Rejection::NotFound, "{nobody}");
    }
    let tom = world.store().approver(&"usr_tom".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(tom.approver.authority, world.approver("tom").approver.authority);
    assert_eq!(world.events().await.len(), events, "who was refused wrote nothing");
    replace("usr_mia").await.unwrap();
    let mia = world.store().approver(&"usr_mia".parse().unwrap()).await.unwrap().unwrap();
    assert_eq!(mia.approver.authority, [row.clone()]);
    assert_eq!(mia.keys, before.keys, "the keys stay");
    let told = world.events().await.pop().unwrap();
    assert_eq!(told["type"], "approver.replace_authority");
    assert_eq!(told["subject"], "usr_mia");
}

async fn one_public_key_has_one_name(world: World) {
    let mia = world.approver("mia");
    let mut zoe = world.approver("zoe");
    zoe.keys[0].public.clone_from(&mia.keys[0].public);
    let mut again = mia.clone();
    again.keys[0].kid = "k-mia-2".parse().unwrap();
    for taken in [zoe.clone(), again.clone()] {
        let refused = world.store().add_approver(world.op(), taken).await;
        assert_eq!(rejection(refused), Rejection::Exists("k-mia".to_owned()));
    }
    world.store().revoke_key(world.op(), "k-mia".parse().unwrap()).await.unwrap();
    for taken in [zoe.clone(), again] {
        let refused = world.store().add_approver(world.op(), taken).await;
        assert_eq!(rejection(refused), Rejection::Exists("k-mia".to_owned()), "also once it is revoked");
    }
    assert_eq!(world.store().approver(&"usr_zoe".parse().unwrap()).await.unwrap(), None);
    zoe.keys = world.approver("zoe").keys;
    world.store().add_approver(world.op(), zoe).await.unwrap();
}

async fn a_key_belongs_to_one_approver(world: World) {
    let mut zoe = world.approver("zoe");
    zoe.keys[0].kid = "k-mia".parse().unwrap();
    let taken = world.store().add_approver(world.op(), zoe.clone()).await;
    assert_eq!(rejection(taken), Rejection::Exists("k-mia".to_owned()));
    zoe.keys = world.approver("tom").keys;
    assert_eq!(rejection(world.store().add_approver(world.op(), zoe).await), Rejection::NotFound);
    assert_eq!(world.store().approver(&"usr_zoe".parse().unwrap()).await.unwrap(), None);
    world.store().revoke_key(world.op(), "k-mia".parse().unwrap()).await.unwrap();
    let unrevoked = world.store().add_approver(world.op(), world.approver("mia")).await;
    assert_eq!(
        rejection(unrevoked),
        Rejection::Exists("k-mia".to_owned()),
        "a revoked key does not come back"
    );
}
