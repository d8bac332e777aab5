export function Pipeline() { return <p>later</p> }
